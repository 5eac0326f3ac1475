"""Mends of how fairseq reads and writes checkpoints."""

import argparse
import functools
import os
import shutil
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from fairseq.distributed.utils import _TensorPlaceholder
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode

from ...checkpoints.numbers import CODES


def with_plain_data(broadcast: Callable) -> Callable:
    """Return fairseq's _broadcast_object_slow, which may send a configuration and numbers of numpy.

    The processes of a resumed run send each other what the first has loaded, with stand-ins for
    tensors, and torch ≥ 2.6 refuses to read it. Can go when fairseq names these types itself.
    """
    numbers = [type(np.dtype(code)) for code in CODES]
    core = getattr(np, "_core", None) or np.core
    types = [
        argparse.Namespace, DictConfig, ListConfig, AnyNode, ContainerMetadata, Metadata, Any, dict,
        list, int, defaultdict, _TensorPlaceholder, np.ndarray, np.dtype, *numbers,
        core.multiarray._reconstruct, core.multiarray.scalar,
    ]  # fmt: skip

    def broadcast_object_slow(*args, **kwargs):
        with torch.serialization.safe_globals(types):
            return broadcast(*args, **kwargs)

    return broadcast_object_slow


def link_or_copy(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
    """Put a checkpoint under a second name, at once and whole.

    fairseq copies byte by byte onto the old checkpoint_last.pt: a run that is killed meanwhile
    cannot be resumed. It never writes into a finished checkpoint, so a hard link is as good as a
    copy. Can go when fairseq writes its copies aside and renames them.
    """
    aside = f"{dst_path}.tmp"
    if os.path.lexists(aside):
        os.remove(aside)
    try:
        os.link(src_path, aside)
    except OSError:  # a file system without hard links
        shutil.copyfile(src_path, aside)
    os.replace(aside, dst_path)
    return True


def with_post_save(save: Callable) -> Callable:
    """Return Trainer.save_checkpoint with the hook that later versions of fairseq have.

    fairseq 0.12.2 never calls the task's post_save, so complete_checkpoints would not be called.
    A version that calls it returns the path of the checkpoint, 0.12.2 returns None. Can go with
    fairseq 0.12.2.
    """

    @functools.wraps(save)
    def save_checkpoint(self, filename: str, extra_state: dict) -> str | None:
        path = save(self, filename, extra_state)
        if path is None and self.should_save_checkpoint_on_current_rank:
            if hasattr(self.task, "post_save"):
                self.task.post_save(filename, self.get_num_updates())
        return path

    return save_checkpoint


def complete_checkpoints(checkpoint: Any, path: str, epoch: int, num_updates: int) -> None:
    """Give the checkpoint at `path` the name of --save-interval-updates, if it should have one.

    fairseq writes none under that name if an epoch ends at that update, and the checkpoints to
    average would be one too few. checkpoint: that part of the configuration. Can go when fairseq
    writes both.
    """
    interval = checkpoint.save_interval_updates
    if interval < 1 or num_updates % interval or f"_{num_updates}" in os.path.basename(path):
        return
    name = f"checkpoint_{epoch}_{num_updates}.pt"
    link_or_copy(path, os.path.join(checkpoint.save_dir, name))
