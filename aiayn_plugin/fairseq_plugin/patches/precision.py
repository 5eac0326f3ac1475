"""Mends of --bf16 and --fp16."""

import logging
import re
from typing import Any

import torch

from ...errors import InputError

OVERFLOW = (
    "gradient overflow in float16, and fairseq lowers its scale only on a GPU: give a "
    "smaller --fp16-init-scale, or --bf16 instead of --fp16"
)

logger = logging.getLogger(__name__)


def train_in_bfloat16(cfg: Any, model: Any) -> None:
    """Let --bf16 compute the matrix products of a training in bfloat16, and nothing else.

    fairseq would make all of the model bfloat16, its residual sums and what checkpoints hold too;
    this is torch's autocast. Can go when fairseq trains in autocast with --bf16.
    """
    if cfg.common.bf16 and not cfg.common.memory_efficient_bf16:
        cfg.common.bf16, model.product_dtype = False, torch.bfloat16
        logger.info("matrix products in bfloat16, weights and optimizer in float32")


def generate_in_bfloat16(common: Any, models: list) -> None:
    """Apply --bf16 to the models of a generating command.

    fairseq takes the flag there and forgets it. Can go when fairseq applies it.
    """
    if common.bf16:
        for model in models:
            model.bfloat16()


def check_float16(common: Any) -> None:
    """Raise InputError for --fp16 without a GPU, where it cannot work.

    fairseq asks CUDA for the device of the row into which it puts all weights. Can go when it asks
    the weights.
    """
    on_cpu = common.cpu or not torch.cuda.is_available()
    if (
        on_cpu
        and common.fp16
        and not (common.fp16_no_flatten_grads or common.memory_efficient_fp16)
    ):
        raise InputError(
            "--fp16 needs a GPU, and this run uses none: give --bf16 instead, or "
            "--fp16-no-flatten-grads with it"
        )


def overflow_on_cpu(error: BaseException) -> bool:
    """Whether fairseq has met an overflow of float16's gradients on a CPU.

    It then makes a zero on the GPU, and torch reports that there is none. Can go when it makes it
    where the gradients are.
    """
    about_gpus = re.search("CUDA|NVIDIA", str(error)) is not None
    return (
        about_gpus
        and not torch.cuda.is_available()
        and isinstance(error.__context__, OverflowError)
    )


def step_once_unscaled(optimizer: Any) -> None:
    """Take an update of --amp: this is AMPOptimizer.step.

    fairseq hands torch's optimizer to the scaler where it unscales the gradients, and its own
    around it here. The scaler takes them for two, and divides the gradients by the scale again. Can
    go when fairseq hands over the same.
    """
    optimizer.scaler.step(optimizer.optimizer)
    optimizer.scaler.update()
