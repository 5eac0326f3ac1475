"""§5.3 Optimizer: Adam, and the rate that rises linearly and then falls as step^-½."""

import ast
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from omegaconf import II

from .errors import SettingError


def lrate(step: int, d_model: int, warmup_steps: int = 4000) -> float:
    """Equation (3): d_model^-½ · min(step^-½, step · warmup_steps^-1.5); step counts from 1.

    Raises SettingError for a warm-up of less than one step.
    """
    if warmup_steps < 1:
        raise SettingError(f"--warmup-updates must be at least 1, not {warmup_steps}")
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


@dataclass
class InverseSqrtConfig(FairseqDataclass):
    warmup_updates: int = field(
        default=4000, metadata={"help": "warmup_steps of §5.3: updates until the rate's peak"}
    )
    d_model: int = II("model.d_model")


@register_lr_scheduler("aiayn_inverse_sqrt", dataclass=InverseSqrtConfig)
class AiaynInverseSqrt(FairseqLRScheduler):
    """Update k, counted from 1, is taken with lrate(k).

    fairseq's inverse_sqrt sets lrate(k) after update k, so that update k + 1 is taken with it.
    """

    def __init__(self, cfg: InverseSqrtConfig, optimizer: FairseqOptimizer) -> None:
        super().__init__(cfg, optimizer)
        self.step_update(0)

    def step_update(self, num_updates: int) -> float:
        """Set and return the rate of the update that follows num_updates finished ones."""
        rate = lrate(num_updates + 1, self.cfg.d_model, self.cfg.warmup_updates)
        self.optimizer.set_lr(rate)
        return rate


@dataclass
class AdamConfig(FairseqDataclass):
    adam_betas: Any = field(
        default="(0.9, 0.98)", metadata={"help": "beta_1 and beta_2 of Adam (§5.3)"}
    )
    adam_eps: float = field(
        default=1e-9, metadata={"help": "epsilon of Adam (§5.3), added after the bias correction"}
    )
    lr: Any = II("optimization.lr")


@register_optimizer("aiayn_adam", dataclass=AdamConfig)
class AiaynAdam(FairseqOptimizer):
    """torch's Adam, without weight decay, fused where the parameters' device has such a kernel."""

    supports_flat_params = True  # every weight is updated on its own: --fp16 and --bf16 may flatten

    def __init__(self, cfg: AdamConfig, params: Any) -> None:
        super().__init__(cfg)
        params = list(params)
        try:
            self._optimizer = torch.optim.Adam(params, fused=True, **self.optimizer_config)
        except RuntimeError:  # no fused kernel for this device in this torch
            self._optimizer = torch.optim.Adam(params, **self.optimizer_config)

    @property
    def optimizer_config(self) -> dict:
        betas = self.cfg.adam_betas
        beta_1, beta_2 = ast.literal_eval(betas) if isinstance(betas, str) else betas
        lr = self.cfg.lr
        return {
            "lr": lr if isinstance(lr, float) else lr[0],
            "betas": (beta_1, beta_2),
            "eps": self.cfg.adam_eps,
        }

    def load_state_dict(self, state_dict: dict, optimizer_overrides: dict | None = None) -> None:
        """Take the moments from the checkpoint, and the settings from this run's command line."""
        ours = {key: self.param_groups[0][key] for key in ("betas", "eps", "fused")}
        groups = [{**group, **ours} for group in state_dict["param_groups"]]
        super().load_state_dict({**state_dict, "param_groups": groups}, optimizer_overrides)
