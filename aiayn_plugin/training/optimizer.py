"""§5.3 Optimizer: Adam, and the rate that rises linearly and then falls as step^-½."""

from collections.abc import Iterable

import torch
from torch import nn

from ..errors import InputError


def lrate(step: int, d_model: int, warmup_steps: int = 4000) -> float:
    """Equation (3): d_model^-½ · min(step^-½, step · warmup_steps^-1.5); step counts from 1.

    Raises InputError for a warm-up of less than one step.
    """
    if warmup_steps < 1:
        raise InputError(f"--warmup-updates must be at least 1, not {warmup_steps}")
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def adam(
    parameters: Iterable[nn.Parameter], lr: float, betas: tuple[float, float], eps: float
) -> torch.optim.Adam:
    """Return torch's Adam, which adds ε after the bias correction, without weight decay.

    It is fused if the device of the parameters has a fused kernel.
    """
    parameters = list(parameters)
    try:
        return torch.optim.Adam(parameters, lr, betas, eps, fused=True)
    except RuntimeError:  # this torch has no fused kernel for this device
        return torch.optim.Adam(parameters, lr, betas, eps)
