"""§5.4 Residual dropout."""

import torch
import torch.nn.functional as F
from torch import Tensor

LEVELS = 2**16


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Set each element to zero with probability p, and divide the others by 1 − p.

    On a CPU, torch draws its random numbers one after the other on one core, which takes longer
    than most matrix products of a small model. Here one draw of 64 bits serves four elements of 16
    bits. So p is rounded to a multiple of 2^-16: 0.1 becomes 6554 / 65536 = 0.100006.
    """
    dropped_levels = round(p * LEVELS)
    if x.device.type != "cpu" or not training or dropped_levels in (0, LEVELS):
        return F.dropout(x, p, training)
    draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    level = draws.view(torch.int16)[: x.numel()].view(x.shape)  # from −LEVELS/2 to LEVELS/2 − 1
    kept = (level >= dropped_levels - LEVELS // 2).view(torch.int8)
    # A product with whole numbers keeps one byte an element for the backward pass, and takes less
    # time than `where` or a product with booleans.
    return x * (LEVELS / (LEVELS - dropped_levels)) * kept
