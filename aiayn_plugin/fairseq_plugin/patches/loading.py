"""Mends of how fairseq's commands load a checkpoint beside a task."""

import logging
from collections.abc import Callable
from typing import Any

from fairseq import checkpoint_utils

from ...errors import InputError

logger = logging.getLogger(__name__)


def with_task_state(load: Callable) -> Callable:
    """Return Trainer.load_checkpoint, which shows the task what its checkpoint holds of a task.

    fairseq stores the task's state and gives it back in all commands but fairseq-train: a training
    that goes on with another dictionary would not be noticed. Can go when fairseq gives it back.
    """

    def load_checkpoint(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        read = checkpoint_utils.load_checkpoint_to_cpu

        def read_and_show(*args: Any, **kwargs: Any) -> Any:
            state = read(*args, **kwargs)
            if hasattr(trainer.task, "check_state"):  # it is ours
                try:
                    trainer.task.check_state(state.get("task_state") or {})
                except InputError as error:
                    if not trainer.cfg.checkpoint.finetune_from_model:
                        raise
                    logger.warning("fine-tuning from other words: %s", error)
            return state

        checkpoint_utils.load_checkpoint_to_cpu = read_and_show
        try:
            return load(trainer, *args, **kwargs)
        finally:
            checkpoint_utils.load_checkpoint_to_cpu = read

    return load_checkpoint
