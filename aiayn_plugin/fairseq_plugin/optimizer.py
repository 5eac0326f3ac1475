"""§5.3 The paper's Adam and schedule in fairseq's registries."""

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from omegaconf import II

from ..errors import InputError
from ..paper import TrainingSettings, copy_field
from ..training.optimizer import build_adam, learning_rate


@dataclass
class InverseSqrtConfig(FairseqDataclass):
    warmup_updates: int = copy_field(TrainingSettings, "warmup_updates")
    d_model: int = II("model.d_model")


@register_lr_scheduler("aiayn_inverse_sqrt", dataclass=InverseSqrtConfig)
class AiaynInverseSqrt(FairseqLRScheduler):
    """Equation (3): update k, counted from 1, uses learning_rate(k).

    fairseq's inverse_sqrt is one update late: update k + 1 uses the rate of k.
    """

    def __init__(self, cfg: InverseSqrtConfig, optimizer: FairseqOptimizer) -> None:
        super().__init__(cfg, optimizer)
        self.step_update(0)

    def step_update(self, num_updates: int) -> float:
        """Set and return the rate of the update that follows num_updates finished ones."""
        rate = learning_rate(num_updates + 1, self.cfg.d_model, self.cfg.warmup_updates)
        self.optimizer.set_lr(rate)
        return rate


@dataclass
class AdamConfig(FairseqDataclass):
    adam_betas: Any = field(
        default=str(TrainingSettings.adam_betas),
        metadata=TrainingSettings.__dataclass_fields__["adam_betas"].metadata,
    )
    adam_eps: float = copy_field(TrainingSettings, "adam_eps")
    lr: Any = II("optimization.lr")


def betas_of(betas: Any) -> Any:
    """Return β₁ and β₂, which fairseq's command line gives as text: "(0.9, 0.98)".

    Raises InputError for a text that is no such pair.
    """
    try:
        return ast.literal_eval(betas) if isinstance(betas, str) else betas
    except (SyntaxError, ValueError):
        raise InputError(f'--adam-betas is {betas!r}, not two numbers: "(0.9, 0.98)"') from None


@register_optimizer("aiayn_adam", dataclass=AdamConfig)
class AiaynAdam(FairseqOptimizer):
    """torch's Adam, without weight decay."""

    supports_flat_params = True  # each weight is updated by itself: --fp16 may put them in one row
    supports_memory_efficient_fp16 = True  # and weights in half precision have float32 moments

    def __init__(self, cfg: AdamConfig, params: Any) -> None:
        super().__init__(cfg)
        self._optimizer = build_adam(params, **self.optimizer_config)

    @property
    def optimizer_config(self) -> dict:
        beta_1, beta_2 = betas_of(self.cfg.adam_betas)
        lr = self.cfg.lr
        return {
            "lr": lr if isinstance(lr, float) else lr[0],
            "betas": (beta_1, beta_2),
            "eps": self.cfg.adam_eps,
        }

    def clip_grad_norm(
        self, max_norm: float, aggregate_norm_fn: Callable | None = None
    ) -> torch.Tensor:
        """Return the norm of all gradients, and scale them to max_norm if that is not 0.

        fairseq computes it weight by weight, which is 182 small kernels of a GPU for base; torch
        takes them together. Sharded weights, whose norms are added up, and gradients in half
        precision, whose norms are in float32, go fairseq's way.
        """
        gradients = [weight.grad for weight in self.params if weight.grad is not None]
        whole = aggregate_norm_fn is None and len(gradients) > 0
        if not whole or any(gradient.dtype != torch.float32 for gradient in gradients):
            return super().clip_grad_norm(max_norm, aggregate_norm_fn)
        norm = torch.nn.utils.get_total_norm(gradients)
        if max_norm > 0:
            torch.nn.utils.clip_grads_with_norm_(self.params, max_norm, norm)
        return norm

    def load_state_dict(self, state_dict: dict, optimizer_overrides: dict | None = None) -> None:
        """Take the moments from the checkpoint, and the settings from this run's command line.

        Raises InputError if the checkpoint's weights are in one row and this run's are not, or the
        other way round.
        """
        theirs = sum(len(group["params"]) for group in state_dict["param_groups"])
        if theirs != len(list(self.params)):
            raise InputError(
                f"the checkpoint's optimizer has {theirs} tensors, and this run's "
                f"{len(list(self.params))}: --fp16 puts all weights in one on a GPU. Go on in the "
                "precision of the checkpoint, or begin Adam's moments anew with --reset-optimizer"
            )
        ours = {key: self.param_groups[0][key] for key in ("betas", "eps", "fused")}
        groups = [{**group, **ours} for group in state_dict["param_groups"]]
        super().load_state_dict({**state_dict, "param_groups": groups}, optimizer_overrides)
