"""Patches of how fairseq writes checkpoints and resumes from them."""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from fairseq.file_io import PathManager

from ...atomic import find_os_error, link_or_copy_atomically, remove_leftovers
from ...checkpoints import safe_load
from ...checkpoints.compatibility import Identity
from ...errors import InputError
from ..optimizer import DIVERGENCE_ADVICE

logger = logging.getLogger(__name__)


def link_or_copy(copy: Callable) -> Callable:
    """Wrap PathManager.copy: give a local checkpoint its second name atomically."""

    def link_or_copy(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
        if PathManager.path_requires_pathmanager(dst_path):
            return copy(src_path, dst_path, overwrite)
        link_or_copy_atomically(Path(src_path), Path(dst_path))
        return True

    return staticmethod(link_or_copy)


def save_atomically(save: Callable) -> Callable:
    """Wrap checkpoint_utils.torch_persistent_save: write finite weights only, and atomically.

    The plugin's task also gets the checkpoint of --save-interval-updates where an epoch ends at
    that update: fairseq leaves it out, and a run would have one checkpoint too few to average. It
    is written first, so that a run killed before the other name exists does not resume without it.
    """

    def torch_persistent_save(obj: Any, filename: str, async_write: bool = False) -> None:
        is_resumable = "train_iterator" in (obj.get("extra_state") or {})  # crash.pt is not
        if is_resumable:
            _check_finite(obj, filename)
        if async_write or not PathManager.supports_rename(filename):
            return save(obj, filename, async_write)
        path = Path(filename)
        first = (interval_path(obj, path) if is_resumable else None) or path
        try:
            safe_load.save(obj, first)
            if first != path:
                link_or_copy_atomically(first, path)
        except (OSError, RuntimeError) as error:  # a full disk is already an InputError
            if (cause := find_os_error(error)) is None:
                raise
            raise InputError(
                f"{filename} cannot be written: {cause.strerror}; once that is solved, the same "
                "command resumes from the last checkpoint"
            ) from error

    return torch_persistent_save


def _check_finite(state: Mapping[str, Any], filename: str) -> None:
    """Raise InputError if a weight is NaN or infinite."""
    if not all(bool(torch.isfinite(weight).all()) for weight in state["model"].values()):
        raise InputError(
            f"update {state['optimizer_history'][-1]['num_updates']} made weights NaN or infinite, "
            f"and {filename} is not written: {DIVERGENCE_ADVICE}"
        )


def interval_path(state: Mapping[str, Any], path: Path) -> Path | None:
    """Return the --save-interval-updates name that an end-of-epoch checkpoint lacks, if any."""
    cfg, iterator = state["cfg"], state["extra_state"]["train_iterator"]
    updates = state["optimizer_history"][-1]["num_updates"]
    interval = cfg["checkpoint"]["save_interval_updates"]
    is_due = interval > 0 and updates % interval == 0 and iterator["iterations_in_epoch"] == 0
    if not is_due or cfg["task"]["_name"] != "aiayn_translation":
        return None
    shard = re.search(r"-shard\d+(?=\.pt$)", path.name)
    suffix = cfg["checkpoint"]["checkpoint_suffix"] + (shard[0] if shard else "")
    return path.with_name(f"checkpoint_{iterator['epoch'] - 1}_{updates}{suffix}.pt")


def resume(load: Callable) -> Callable:
    """Wrap checkpoint_utils.load_checkpoint: resume killed, broken and finished runs.

    Removes files that a killed run left half-written, rejects a checkpoint of different
    dictionaries or settings (fairseq-train does not pass task_state to the task), names the newest
    intact checkpoint if checkpoint_last.pt is broken, and ends a finished run, which would
    otherwise take another update.

    Every process of a distributed run reads the checkpoint itself: rank 0 would send it in a form
    that torch's weights_only refuses.
    """

    def load_checkpoint(cfg: Any, trainer: Any, **options: Any) -> tuple[Any, Any]:
        if trainer.data_parallel_rank == 0:
            remove_leftovers(Path(cfg.save_dir).glob("checkpoint*.pt.tmp"))
        if trainer.data_parallel_world_size > 1:
            cfg.load_checkpoint_on_all_dp_ranks = True
        suffix = trainer.checkpoint_suffix
        try:
            _check_identity(cfg, trainer.task, _restored_path(cfg, suffix))
            extra_state, epochs = load(cfg, trainer, **options)
        except Exception as error:
            _check_last(cfg, suffix, error)
            raise
        if extra_state is not None:
            _end_if_finished(trainer, epochs)
        return extra_state, epochs

    return load_checkpoint


def _restored_path(cfg: Any, suffix: str) -> str:
    """Return the path that fairseq restores, which may not exist."""
    last = os.path.join(cfg.save_dir, f"checkpoint_last{suffix}.pt")
    if cfg.restore_file != "checkpoint_last.pt":
        return cfg.restore_file.replace(".pt", f"{suffix}.pt")
    if not PathManager.exists(last):
        return getattr(cfg, "continue_once", None) or cfg.finetune_from_model or last
    return last


def _check_identity(cfg: Any, task: Any, path: str) -> None:
    """Raise InputError if our task's dictionaries or model differ from a checkpoint's.

    Fine-tuning may change the dictionaries, with a warning.
    """
    if not (hasattr(task, "identity") and PathManager.isfile(path)):
        return
    state = safe_load.glance(Path(PathManager.get_local_path(path)))
    trained = Identity.read(state.get("task_state") or {})
    trained.check_settings(task.identity())
    try:
        task.check_dictionaries(trained)
    except InputError as error:
        if not cfg.finetune_from_model:
            raise
        logger.warning("fine-tuning with different dictionaries: %s", error)


def _check_last(cfg: Any, suffix: str, error: Exception) -> None:
    """Raise InputError if the checkpoint_last.pt that could not be restored is broken.

    cfg: fairseq's checkpoint settings. The error becomes the cause.
    """
    last = Path(cfg.save_dir, f"checkpoint_last{suffix}.pt")
    if cfg.restore_file != "checkpoint_last.pt" or not last.is_file():
        return
    if fault := _fault(last):
        for path in newest_first(Path(cfg.save_dir), suffix):
            if not _fault(path):
                name = str(path).removesuffix(f"{suffix}.pt") + ".pt"
                raise InputError(
                    f"{fault}; the newest intact one is {path}: resume from it once with "
                    f"--restore-file {name}"
                ) from error
        raise InputError(
            f"{fault}, and no other checkpoint in {cfg.save_dir} is intact: move it away to train "
            "from the start"
        ) from error


def _fault(path: Path) -> str | None:
    """Return what is wrong with a checkpoint; None if it is intact or cannot be read."""
    try:
        safe_load.check_intact(path)
        safe_load.glance(path)
    except InputError as error:
        return str(error)
    except OSError:
        pass
    return None


def newest_first(directory: Path, suffix: str = "") -> Iterator[Path]:
    """Yield a run's checkpoints except the last: in the order of their names, then the best.

    For example checkpoint2.pt (the end of epoch 2), checkpoint_2_30.pt, checkpoint_2_20.pt,
    checkpoint1.pt, checkpoint_best.pt.
    """
    numbered = []
    for path in directory.glob(f"checkpoint*{suffix}.pt"):
        name = path.name.removesuffix(f"{suffix}.pt")
        if match := re.fullmatch(r"checkpoint_?(\d+)(?:_(\d+))?", name):
            numbered.append((int(match[1]), float(match[2] or "inf"), path))
    yield from (path for *_, path in sorted(numbered, reverse=True))
    yield from sorted(
        directory.glob(f"checkpoint?best*{suffix}.pt"), key=os.path.getmtime, reverse=True
    )


def _end_if_finished(trainer: Any, epochs: Any) -> None:
    """End the training loop, and log it, if the run has reached its last update or epoch.

    epochs: fairseq's iterator, whose next epoch the loop compares with max_epoch.
    """
    limits, updates = trainer.cfg.optimization, trainer.get_num_updates()
    if 0 < limits.max_update <= updates:
        limit = f"--max-update {limits.max_update}"
    elif 0 < limits.max_epoch < epochs.next_epoch_idx:
        limit = f"--max-epoch {limits.max_epoch}"
    else:
        return
    logger.info(
        "this run has finished (%s, after %d updates): nothing is left to train", limit, updates
    )
    limits.max_epoch = -1
