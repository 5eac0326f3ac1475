"""--bf16 and --fp16 with the plugin's task."""

import logging
from typing import Any

import torch

from ..errors import InputError

logger = logging.getLogger(__name__)


def train_in_bfloat16(cfg: Any, model: Any) -> None:
    """Make --bf16 train with torch's autocast: only matrix multiplications are in bfloat16.

    fairseq would convert the whole model to bfloat16, including the residual stream and the weights
    in checkpoints.
    """
    if cfg.common.bf16 and not cfg.common.memory_efficient_bf16:
        cfg.common.bf16, model.matmul_dtype = False, torch.bfloat16
        logger.info("matrix multiplications in bfloat16, weights and optimizer in float32")


def check_float16(common: Any) -> None:
    """Raise InputError for --fp16 without a GPU: fairseq's flat parameters need CUDA."""
    on_cpu = common.cpu or not torch.cuda.is_available()
    if on_cpu and common.fp16 and not common.fp16_no_flatten_grads:
        raise InputError("--fp16 needs a GPU, but this run is on a CPU: give --bf16 instead")
