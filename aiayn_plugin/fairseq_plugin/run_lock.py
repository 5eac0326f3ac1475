"""The lock of a training run: two runs must not write the same checkpoints."""

import os
from contextlib import ExitStack, suppress
from pathlib import Path

from fairseq.distributed.utils import is_master
from omegaconf import DictConfig

from ..atomic import hold_lock

#: The lock of this process's run. Forked data loaders outlive a killed run, so they release it.
_lock = ExitStack()
os.register_at_fork(after_in_child=_lock.close)


def lock_save_dir(cfg: DictConfig) -> None:
    """Lock the directory of the checkpoints, in the first process of a run.

    Raises InputError if a different run holds the lock. On a file system without locks the run
    starts anyway.
    """
    _lock.close()
    directory = Path(cfg.checkpoint.save_dir)  # fairseq-train has created it
    is_used = directory.is_dir() and not cfg.checkpoint.no_save
    if is_used and is_master(cfg.distributed_training):
        message = (
            f"{directory} is in use by another training run: stop it, or give a different "
            "--save-dir"
        )
        with suppress(OSError):
            _lock.enter_context(hold_lock(directory, message, timeout=1))
