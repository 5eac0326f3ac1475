"""§5.4 Residual dropout."""

import torch
import torch.nn.functional as F
from torch import Tensor

#: Number of values of the 16-bit random number drawn for each element.
LEVELS = 2**16


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Zero each element with probability p, and divide the rest by 1 − p.

    On a CPU, torch draws random numbers sequentially on one core, which takes longer than most
    matmuls of a small model. Here one draw of 64 bits gives four elements 16 bits each, so p is
    rounded to a multiple of 2^-16: 0.1 becomes 6554 / 65536 = 0.100006.
    """
    if not training:
        return x
    dropped_levels = round(p * LEVELS)
    if x.device.type != "cpu" or dropped_levels in (0, LEVELS):
        return F.dropout(x, p)
    draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64, device=x.device)
    draws.random_(-(2**63), None)
    level = draws.view(torch.int16)[: x.numel()].view(x.shape)  # from −LEVELS/2 to LEVELS/2 − 1
    keep = (level >= dropped_levels - LEVELS // 2).view(torch.int8)
    # Multiplying by int8 stores one byte per element for the backward pass, and is faster than
    # `where` or multiplying by booleans.
    return x * (LEVELS / (LEVELS - dropped_levels)) * keep
