"""§5.4 Residual dropout."""

import torch
import torch.nn.functional as F
from torch import Tensor

LEVELS = 2**16


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Set each element to zero with probability p, and divide the others by 1 − p.

    On a CPU, torch draws its random numbers one by one on one core, which costs more than most
    matrix products of a small model; here one draw of 64 bits serves four elements, so that p is
    rounded to a multiple of 2^-16.
    """
    dropped = round(p * LEVELS)
    if x.device.type != "cpu" or not training or dropped in (0, LEVELS):
        return F.dropout(x, p, training)
    draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    level = draws.view(torch.int16)[: x.numel()].view(x.shape)  # uniform from −LEVELS/2
    kept = level >= dropped - LEVELS // 2
    # where, unlike a product, keeps one byte an element for the backward pass
    return torch.where(kept, x * (LEVELS / (LEVELS - dropped)), 0)
