"""Mends of --bf16."""

import logging
from typing import Any

import torch

logger = logging.getLogger(__name__)


def train_in_bfloat16(cfg: Any, model: Any) -> None:
    """Let --bf16 compute the matrix products of a training in bfloat16, and nothing else.

    fairseq would make all of the model bfloat16, its residual sums and what checkpoints hold too;
    this is torch's autocast. Can go when fairseq trains in autocast with --bf16.
    """
    if cfg.common.bf16 and not cfg.common.memory_efficient_bf16:
        cfg.common.bf16, model.product_dtype = False, torch.bfloat16
        logger.info("matrix products in bfloat16, weights and optimizer in float32")


def generate_in_bfloat16(task: Any, models: list) -> None:
    """Apply --bf16 to the models of a generating command.

    fairseq takes the flag there and forgets it. Can go when fairseq applies it.
    """
    cfg = task.cfg._get_root()
    generates = task.training_cfg is None and "common_eval" in cfg and cfg.common_eval.path
    if generates and cfg.common.bf16:
        for model in models:
            model.bfloat16()
