"""§5.3 Optimizer: Adam, and a learning rate that rises linearly and then falls as step^-½."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim.adam import adam as adam_update

from ..errors import InputError


def learning_rate(step: int, d_model: int, warmup_steps: int = 4000) -> float:
    """Equation (3): d_model^-½ · min(step^-½, step · warmup_steps^-1.5); step counts from 1.

    Raises InputError if warmup_steps is below 1.
    """
    if warmup_steps < 1:
        raise InputError(f"--warmup-updates must be at least 1, not {warmup_steps}")
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


class HalfPrecisionAdam(torch.optim.Adam):
    """torch's Adam for half-precision weights, with moments and arithmetic in float32.

    The weights are rounded after each update: a bfloat16 weight of 1.0 loses any step below 0.002.
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the weights one at a time, so that only one has a float32 copy at any time."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, weight.grad.float(), group)

    def _update(self, weight: nn.Parameter, gradient: Tensor, group: dict) -> None:
        master, state = weight.float(), self.state[weight]
        if not state:
            state.update(
                step=torch.zeros(()),
                exp_avg=torch.zeros_like(master),
                exp_avg_sq=torch.zeros_like(master),
            )
        for name, value in state.items():  # a loaded state may be on another device
            state[name] = torch.as_tensor(value).to(master)
        beta_1, beta_2 = group["betas"]
        adam_update(
            [master],
            [gradient],
            [state["exp_avg"]],
            [state["exp_avg_sq"]],
            [],
            [state["step"]],
            fused=group["fused"],
            amsgrad=False,
            beta1=beta_1,
            beta2=beta_2,
            lr=group["lr"],
            weight_decay=0.0,
            eps=group["eps"],
            maximize=False,
        )
        weight.copy_(master)


def build_adam(
    parameters: Iterable[nn.Parameter], lr: float, betas: tuple[float, float], eps: float
) -> torch.optim.Adam:
    """Return torch's Adam, which adds ε after the bias correction, without weight decay.

    It is fused where the device has a fused kernel. Half-precision weights get float32 moments.
    """
    parameters = list(parameters)
    has_half_precision = any(p.dtype in (torch.float16, torch.bfloat16) for p in parameters)
    optimizer = HalfPrecisionAdam if has_half_precision else torch.optim.Adam
    try:
        return optimizer(parameters, lr, betas, eps, fused=True)
    except RuntimeError:  # no fused kernel for this device
        return optimizer(parameters, lr, betas, eps)
