"""§5.3 Optimizer: Adam, and a learning rate that rises linearly and then falls as step^-½."""

from collections.abc import Iterable

import torch
from torch import nn

from ..errors import InputError


def learning_rate(step: int, d_model: int, warmup_steps: int = 4000) -> float:
    """Equation (3): d_model^-½ · min(step^-½, step · warmup_steps^-1.5); step counts from 1.

    Raises InputError if warmup_steps is below 1.
    """
    if warmup_steps < 1:
        raise InputError(f"--warmup-updates must be at least 1, not {warmup_steps}")
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def build_adam(
    parameters: Iterable[nn.Parameter], lr: float, betas: tuple[float, float], eps: float
) -> torch.optim.Adam:
    """Return torch's fused Adam, which adds ε after the bias correction, without weight decay."""
    return torch.optim.Adam(list(parameters), lr, betas, eps, fused=True)
