"""§5.3 The paper's Adam and schedule in fairseq's registries."""

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from omegaconf import II
from torch import Tensor

from ..errors import InputError
from ..paper import TrainingSettings, copy_field
from ..training.optimizer import build_adam, learning_rate

DIVERGENCE_ADVICE = (
    "lower the learning rate (more --warmup-updates, or a smaller --lr with another "
    "--lr-scheduler), train in float32 if this run uses half precision, or look for corrupt lines "
    "in the data; the same command resumes from the last checkpoint"
)


@dataclass
class InverseSqrtConfig(FairseqDataclass):
    warmup_updates: int = copy_field(TrainingSettings, "warmup_updates")
    d_model: int = II("model.d_model")


@register_lr_scheduler("aiayn_inverse_sqrt", dataclass=InverseSqrtConfig)
class AiaynInverseSqrt(FairseqLRScheduler):
    """The paper's schedule: learning_rate(k) is the learning rate of update k, counted from 1.

    fairseq's inverse_sqrt sets learning_rate(k) after update k, for update k + 1.
    """

    def __init__(self, cfg: InverseSqrtConfig, optimizer: FairseqOptimizer) -> None:
        super().__init__(cfg, optimizer)
        self.step_update(0)

    def step_update(self, num_updates: int) -> float:
        """Set and return the learning rate of update num_updates + 1."""
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
    fp16: bool = II("common.fp16")
    amp: bool = II("common.amp")


def parse_betas(betas: Any) -> tuple[float, float]:
    """Parse "(0.9, 0.98)", as fairseq's command line gives it, into β₁ and β₂.

    Raises InputError for anything but two numbers in [0, 1).
    """
    try:
        beta_1, beta_2 = map(float, ast.literal_eval(betas) if isinstance(betas, str) else betas)
    except (SyntaxError, TypeError, ValueError):
        raise InputError(f'--adam-betas {betas!r} must be two numbers like "(0.9, 0.98)"') from None
    if not (0 <= beta_1 < 1 and 0 <= beta_2 < 1):
        raise InputError(f"--adam-betas {betas} must be in [0, 1)")
    return beta_1, beta_2


@register_optimizer("aiayn_adam", dataclass=AdamConfig)
class AiaynAdam(FairseqOptimizer):
    """torch's Adam, without weight decay."""

    supports_flat_params = True  # updates are elementwise, so --fp16 may flatten the weights
    #: Whether to keep the same gradient tensors, since CUDA graphs accumulate into them.
    keeps_gradients = False

    def __init__(self, cfg: AdamConfig, params: Any) -> None:
        super().__init__(cfg)
        params = list(params)
        if any(weight.dtype in (torch.float16, torch.bfloat16) for weight in params):
            raise InputError(
                "aiayn_adam keeps weights in float32: give --fp16 or --bf16 instead of the "
                "memory-efficient options, or --optimizer adam, which is fairseq's"
            )
        self._optimizer = build_adam(params, **self.optimizer_config)
        self._optimizer.register_load_state_dict_pre_hook(use_own_settings)

    @property
    def optimizer_config(self) -> dict:
        lr = self.cfg.lr
        return {
            "lr": lr if isinstance(lr, float) else lr[0],
            "betas": parse_betas(self.cfg.adam_betas),
            "eps": self.cfg.adam_eps,
        }

    def zero_grad(self) -> None:
        """Like fairseq's; with keeps_gradients, zero the gradients in place."""
        gradients = [weight.grad for weight in self.params if weight.grad is not None]
        if self.keeps_gradients and gradients:
            torch._foreach_zero_(gradients)
        else:
            super().zero_grad()

    def clip_grad_norm(self, max_norm: float, aggregate_norm_fn: Callable | None = None) -> Tensor:
        """Return the norm of all gradients, and scale them to max_norm unless that is 0.

        Raises InputError if the norm is NaN or infinite, except with --fp16 and --amp, whose
        dynamic loss scale handles an overflow. For such a norm fairseq would repeat the batch to
        print all gradients, write crash.pt and end with a stack trace; it still does so with its
        own optimizers.
        """
        gradients = [weight.grad for weight in self.params if weight.grad is not None]
        if aggregate_norm_fn is not None or not gradients:  # weights may be sharded
            norm = super().clip_grad_norm(max_norm, aggregate_norm_fn)
        else:  # the norm of all gradients at once; fairseq's takes a small GPU kernel for each
            norm = torch.nn.utils.get_total_norm(gradients)
            if max_norm > 0:
                torch.nn.utils.clip_grads_with_norm_(self.params, max_norm, norm)
        if not (self.cfg.fp16 or self.cfg.amp or torch.isfinite(norm).all()):
            raise InputError(f"gradients are NaN or infinite: {DIVERGENCE_ADVICE}")
        return norm


def use_own_settings(adam: torch.optim.Optimizer, state_dict: dict[str, Any]) -> dict[str, Any]:
    """Return a checkpoint's state with its moments and learning rate, and the settings of this run.

    Most schedules recompute the rate, but reduce_lr_on_plateau stores it only here. torch's
    Adam calls this hook before loading a state, also inside fairseq's optimizers for --fp16 and
    --amp. Raises InputError if only the checkpoint or only this run has flattened weights, and for
    moments of a different shape, since the fused kernel would write out of bounds.
    """
    groups, (own,) = state_dict["param_groups"], adam.param_groups
    saved = groups[0] if len(groups) == 1 else {"params": ()}
    keys, weights = saved["params"], own["params"]
    if len(keys) != len(weights):
        raise InputError(
            f"the optimizer has {len(keys)} tensors in the checkpoint and {len(weights)} here: on "
            "a GPU, --fp16 flattens all weights into one. Resume in the checkpoint's precision: "
            "--reset-optimizer would also start again at update 0"
        )
    for key, weight in zip(keys, weights, strict=True):
        if not _fits(state_dict["state"].get(key, {}), weight):
            raise InputError(
                "Adam's moments in the checkpoint do not fit the model's weights: use an intact "
                "copy, or start again from its weights with --reset-optimizer"
            )
    group = {**own, "lr": _saved_rate(saved, own["lr"]), "params": keys}
    return {**state_dict, "param_groups": [group]}


def _saved_rate(group: dict[str, Any], default: Any) -> Any:
    """Return the learning rate in a checkpoint, unless it is missing or not a number."""
    rate = group.get("lr")
    return rate if isinstance(rate, float) and math.isfinite(rate) else default


def _fits(moments: Any, weight: Tensor) -> bool:
    """Return whether a checkpoint's moments are laid out like their weight, or missing."""
    if moments == {}:
        return True
    tensors = [moments[name] for name in ("exp_avg", "exp_avg_sq")]
    return (
        len(moments) == 3
        and torch.as_tensor(moments["step"]).numel() == 1
        and all(tensor.shape == weight.shape and tensor.is_contiguous() for tensor in tensors)
    )
