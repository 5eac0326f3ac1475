"""Mends of how fairseq writes checkpoints."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fairseq.file_io import PathManager

from ...atomic import find_os_error, link_or_copy_atomically
from ...checkpoints import safe_load as files
from ...errors import InputError


def copied(copy: Callable) -> Callable:
    """Return PathManager.copy so that a checkpoint is put under a second name at once and whole.

    fairseq copies byte by byte onto the old checkpoint_last.pt: a run that is killed meanwhile
    cannot be resumed. It never writes into a finished checkpoint, so a hard link is as good as a
    copy. Can go when fairseq writes its copies aside and renames them.
    """

    def link_or_copy(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
        if PathManager.path_requires_pathmanager(dst_path):
            return copy(src_path, dst_path, overwrite)
        link_or_copy_atomically(Path(src_path), Path(dst_path))
        return True

    return link_or_copy


def whole(save: Callable) -> Callable:
    """Return fairseq's torch_persistent_save so that a failure is one line and leaves nothing.

    If the disk is full fairseq tries three times, each behind the remains of the one before, leaves
    them, and ends with a stack trace. What is left of a killed run it opens and overwrites, and
    that may be a second name of a whole checkpoint. Can go when fairseq writes into a new file.
    """

    def torch_persistent_save(obj: Any, filename: str, async_write: bool = False) -> None:
        if async_write or not PathManager.supports_rename(filename):
            return save(obj, filename, async_write)
        try:
            files.save(obj, Path(filename))
        except (OSError, RuntimeError) as error:  # a full disk is an InputError already
            if (cause := find_os_error(error)) is None:
                raise
            raise InputError(
                f"{filename} cannot be written: {cause.strerror}; once it can, the "
                "same command goes on from the last checkpoint"
            ) from error

    return torch_persistent_save


def writable(verify: Callable) -> Callable:
    """Return fairseq's verify_checkpoint_directory with one line instead of a stack trace.

    Can go when fairseq ends with one line.
    """

    def verify_checkpoint_directory(save_dir: str) -> None:
        try:
            verify(save_dir)
        except OSError as error:
            raise InputError(
                f"--save-dir {save_dir} cannot be written: {error.strerror}; give another one"
            ) from error

    return verify_checkpoint_directory


def finite(save: Callable) -> Callable:
    """Return Trainer.save_checkpoint so that it writes no weights that are not finite.

    fairseq notices them at the next update, when they are in checkpoint_last.pt already. Can go
    when fairseq looks before it writes.

    And the name of --save-interval-updates comes first, if the task asks for it: fairseq writes
    none if an epoch ends at that update, and the checkpoints to average would be one too few. It is
    written before checkpoint_last.pt, so a run that is killed between them does not go on without
    it. Can go when fairseq writes both.
    """

    def save_checkpoint(trainer: Any, filename: str, extra_state: dict) -> str | None:
        if not extra_state:  # crash.pt
            return save(trainer, filename, extra_state)
        updates = trainer.get_num_updates()
        if not all(bool(torch.isfinite(w).all()) for w in trainer.get_model().parameters()):
            raise InputError(
                f"update {updates} made weights that are NaN or infinite, and "
                f"{filename} is not written: {advice(trainer)}"
            )
        first = filename
        if (
            hasattr(trainer.task, "first_name")
            and not trainer.cfg.checkpoint.write_checkpoints_asynchronously
        ):
            first = trainer.task.first_name(filename, updates, trainer.checkpoint_suffix)
        path = save(trainer, first, extra_state)
        if first != filename and trainer.should_save_checkpoint_on_current_rank:
            link_or_copy_atomically(Path(first), Path(filename))
            path = os.path.abspath(filename)
        return path

    return save_checkpoint


def interval_name(
    checkpoint: Any, path: str, epoch: int, num_updates: int, suffix: str = ""
) -> str:
    """Return the name of --save-interval-updates for the checkpoint `path`, if it should have one.

    Otherwise `path` itself. checkpoint: that part of the configuration. suffix: of a shard's files.
    """
    interval = checkpoint.save_interval_updates
    has_it = rf"checkpoint_\d+_{num_updates}{re.escape(suffix)}\.pt"
    if interval < 1 or num_updates % interval or re.fullmatch(has_it, os.path.basename(path)):
        return path
    return os.path.join(checkpoint.save_dir, f"checkpoint_{epoch}_{num_updates}{suffix}.pt")


def advice(trainer: Any) -> str:
    """Return what to do about a training that has left the finite numbers."""
    common = trainer.cfg.common
    half = next(
        (
            flag
            for flag, given in {
                "--fp16": common.fp16,
                "--amp": common.amp,
                "--bf16": common.bf16,
            }.items()
            if given
        ),
        None,
    )
    precision = f", train in float32 instead of {half}" if half else ""
    return (
        f"lower the rate (a smaller --lr or more --warmup-updates){precision}, or look for "
        "wrong lines in the data; the same command goes on from the last checkpoint"
    )
