"""--bf16 with the plugin's task, and the precision of a run."""

import logging
from typing import Any

import torch

logger = logging.getLogger(__name__)


def train_in_bfloat16(cfg: Any, model: Any) -> None:
    """Make --bf16 train with torch's autocast: only matrix multiplications are in bfloat16.

    fairseq would convert the whole model to bfloat16, including the residual stream and the weights
    in checkpoints.
    """
    if cfg.common.bf16 and not cfg.common.memory_efficient_bf16:
        cfg.common.bf16, model.matmul_dtype = False, torch.bfloat16
        logger.info("matrix multiplications in bfloat16, weights and optimizer in float32")
        logging.getLogger("fairseq.trainer").addFilter(hide_float16_advice)


def hide_float16_advice(record: logging.LogRecord) -> bool:
    """Drop fairseq's advice to train with --fp16 or --amp instead of float32."""
    return "may support faster training" not in record.getMessage()


def name_precision(common: Any, model: Any) -> str:
    """Return the precision of a run by its option, such as "bf16"."""
    if getattr(model, "matmul_dtype", None) is torch.bfloat16:
        return "bf16"  # train_in_bfloat16 has reset the option
    names = ("memory_efficient_fp16", "memory_efficient_bf16", "fp16", "bf16", "amp")
    return next((name.replace("_", "-") for name in names if getattr(common, name)), "float32")
