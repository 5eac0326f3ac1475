"""The lock of a training run: two runs must not write the same checkpoints."""

import os
from contextlib import ExitStack, suppress
from pathlib import Path

from fairseq.distributed.utils import is_master
from omegaconf import DictConfig

from ..atomic import hold_lock

LOCK_FILE = "train.lock"
#: The lock of this process's run. Forked data loaders outlive a killed run, so they give it up.
_lock = ExitStack()
os.register_at_fork(after_in_child=_lock.close)


def lock_save_dir(cfg: DictConfig) -> None:
    """Lock the directory of the checkpoints, in the first process of a run.

    Raises InputError if a different run holds the lock. Without write access, or on a file system
    without locks, the run starts anyway.
    """
    _lock.close()
    if is_master(cfg.distributed_training) and not cfg.checkpoint.no_save:
        directory = Path(cfg.checkpoint.save_dir)
        busy = f"{directory} is in use by a different training: stop it, or give another --save-dir"
        with suppress(OSError):
            _lock.enter_context(hold_lock(directory / LOCK_FILE, busy))
