"""Patches of how fairseq writes checkpoints and resumes from them."""

import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils

from ...atomic import find_os_error, link_or_copy_atomically, remove_leftovers
from ...checkpoints import safe_load
from ...checkpoints.compatibility import Identity
from ...errors import InputError
from ..optimizer import DIVERGENCE_ADVICE
from .errors import describe_error, input_error

logger = logging.getLogger(__name__)


def link_or_copy(copy: Callable) -> Callable:
    """Replace PathManager.copy: give a checkpoint its second name atomically."""

    def link_or_copy(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
        link_or_copy_atomically(Path(src_path), Path(dst_path))
        return True

    return staticmethod(link_or_copy)


def save_atomically(save: Callable) -> Callable:
    """Wrap checkpoint_utils.torch_persistent_save: write finite weights only, and atomically.

    With the plugin's task, also write the checkpoint of --save-interval-updates where an epoch ends
    at that update, and at the end of the run: fairseq skips it, so the average would miss, for
    example, base's final weights, since 100,000 is not a multiple of 1,500. That checkpoint is
    written first, so a run killed before its second name exists does not resume without it.
    """

    def torch_persistent_save(obj: Any, filename: str, async_write: bool = False) -> None:
        is_resumable = "train_iterator" in (obj.get("extra_state") or {})  # crash.pt is not
        if is_resumable and (name := _find_infinite(obj["model"])):
            raise InputError(
                f"update {obj['optimizer_history'][-1]['num_updates']} made {name} NaN or "
                f"infinite, and {filename} is not written: {DIVERGENCE_ADVICE}"
            )
        if async_write:
            return save(obj, filename, async_write)
        path = Path(filename)
        first = (interval_path(obj, path) if is_resumable else None) or path
        try:
            safe_load.save(obj, first, _check_readable if is_resumable else None)
            if first != path:
                link_or_copy_atomically(first, path)
                remove_old(obj["cfg"]["checkpoint"], first)
        except (OSError, RuntimeError) as error:  # a full disk is already an InputError
            if (cause := find_os_error(error)) is None:
                raise
            raise InputError(
                f"{filename} cannot be written: {cause.strerror}; once this is fixed, the same "
                "command resumes from the last checkpoint"
            ) from error

    return torch_persistent_save


def _check_readable(path: Path) -> None:
    """Raise InputError if a user's model makes a checkpoint unloadable."""
    try:
        safe_load.load(path, with_data=False)
    except InputError as error:
        raise InputError(
            f"{error}; it is not kept: register such a buffer of your model with persistent=False, "
            "or choose a different value of its option"
        ) from None


def _find_infinite(weights: Mapping[str, torch.Tensor]) -> str | None:
    """Return the name of a tensor that is not finite, except one that fairseq never sets."""
    for name, value in weights.items():
        if not name.endswith("_float_tensor") and not value.isfinite().all():
            return name
    return None


def interval_path(state: Mapping[str, Any], path: Path) -> Path | None:
    """Return the --save-interval-updates name that a checkpoint lacks, if any.

    It is missing at the end of an epoch, and at a last update that the interval does not divide.
    """
    cfg, iterator = state["cfg"], state["extra_state"]["train_iterator"]
    updates = state["optimizer_history"][-1]["num_updates"]
    interval = cfg["checkpoint"]["save_interval_updates"]
    if interval <= 0 or "dictionaries" not in state["task_state"]:  # of a different task
        return None
    ends_epoch = iterator["iterations_in_epoch"] == 0  # the iterator is then in the next epoch
    limits = cfg["optimization"]
    is_due = updates % interval == 0 and ends_epoch
    is_last = updates == limits["max_update"] or 0 < limits["max_epoch"] < iterator["epoch"]
    if not is_due and not is_last:
        return None
    shard = re.search(r"-shard\d+(?=\.pt$)", path.name)
    suffix = cfg["checkpoint"]["checkpoint_suffix"] + (shard[0] if shard else "")
    return path.with_name(f"checkpoint_{iterator['epoch'] - ends_epoch}_{updates}{suffix}.pt")


def remove_old(settings: Mapping[str, Any], newest: Path) -> None:
    """Remove the checkpoints that --keep-interval-updates does not keep, given the newest.

    fairseq does so only in the middle of an epoch.
    """
    keep, multiple = settings["keep_interval_updates"], settings["keep_interval_updates_pattern"]
    suffix = re.escape(re.sub(r"^checkpoint_\d+_\d+", "", newest.name))
    numbered = checkpoint_utils.checkpoint_paths(
        str(newest.parent), rf"checkpoint_\d+_(\d+){suffix}", keep_match=True
    )
    removable = [path for path, update in numbered if multiple == -1 or update % multiple]
    for path in removable[keep:] if keep > 0 else ():
        Path(path).unlink()


def resume(load: Callable) -> Callable:
    """Wrap Trainer.load_checkpoint: resume killed runs, and end finished ones.

    Removes files that a killed run left half-written. Rejects a missing --restore-file and a
    checkpoint that has different dictionaries or settings, or lacks the optimizer's state. A
    finished run would otherwise take another update. Several processes each read the file: rank 0
    would send its content as a pickle, which weights_only refuses. With --store-ema and a
    checkpoint without a moving average, it starts from the weights.
    """

    def load_checkpoint(trainer: Any, filename: str, *args: Any, **options: Any) -> Any:
        cfg, ema = trainer.cfg.checkpoint, trainer.cfg.ema
        if trainer.data_parallel_rank == 0:
            remove_leftovers(Path(cfg.save_dir).glob("checkpoint*.pt.tmp"))
        if trainer.data_parallel_world_size > 1:
            cfg.load_checkpoint_on_all_dp_ranks = True
        last = Path(cfg.save_dir, f"checkpoint_last{trainer.checkpoint_suffix}.pt")
        _check_shared((Path(filename), last), trainer)
        _check_exists(cfg, filename)
        is_our_task, stores_average = hasattr(trainer.task, "identity"), ema.store_ema
        try:
            if is_our_task and Path(filename).is_file():
                has_average = _check_state(cfg, trainer.task, filename)
                # fairseq fails without one; if it loads none, it later builds it from the weights
                ema.store_ema = stores_average and has_average
            extra_state = load(trainer, filename, *args, **options)
        except (InputError, OSError):
            raise
        except Exception as error:
            raise InputError(
                input_error(error) or f"{filename} does not fit this run: {describe_error(error)}"
            ) from error
        ema.store_ema = stores_average
        if stores_average:
            updates = trainer.get_num_updates()
            trainer.ema.update_freq_counter = updates % max(ema.ema_update_freq, 1)
        if is_our_task and trainer.get_num_updates() == 0:
            _warn_of_earlier_run(trainer)
        if extra_state is not None:
            if filename == cfg.finetune_from_model:
                trainer._previous_training_time = 0  # for --stop-time-hours
            restarts = cfg.reset_dataloader or filename == cfg.finetune_from_model
            _end_if_finished(trainer, 1 if restarts else extra_state["train_iterator"]["epoch"])
        return extra_state

    return load_checkpoint


def _check_exists(cfg: Any, filename: str) -> None:
    """Raise InputError if a checkpoint that an option names is missing."""
    option = "--restore-file" if cfg.restore_file != "checkpoint_last.pt" else None
    if option is None and filename == cfg.continue_once:
        option = "--continue-once"
    if option and not Path(filename).exists():
        raise InputError(
            f"{option} {filename} is missing (a relative path is resolved from the current "
            "directory, not from --save-dir)"
        )


def _warn_of_earlier_run(trainer: Any) -> None:
    """Warn if a run that starts at update 0 finds numbered checkpoints in its --save-dir."""
    directory = trainer.cfg.checkpoint.save_dir
    pattern = rf"checkpoint_\d+_(\d+){re.escape(trainer.checkpoint_suffix)}\.pt"
    earlier = (
        checkpoint_utils.checkpoint_paths(directory, pattern) if Path(directory).is_dir() else ()
    )
    if earlier and trainer.data_parallel_rank == 0:
        logger.warning(
            "training starts at update 0, but %s is from an earlier run: remove its checkpoints or "
            "give a different --save-dir, since aiayn average would mix both runs",
            earlier[0],
        )


def _check_shared(paths: tuple[Path, ...], trainer: Any) -> None:
    """Raise InputError if only some of several processes, on different nodes, find a checkpoint.

    The other processes would start from different weights, and the gradients of both models would
    be summed.
    """
    if (processes := trainer.data_parallel_world_size) == 1:
        return
    counts = torch.tensor([float(path.is_file()) for path in paths], device=trainer.device)
    torch.distributed.all_reduce(counts, group=trainer.data_parallel_process_group)
    for path, count in zip(paths, counts.tolist(), strict=True):
        if 0 < count < processes:
            raise InputError(
                f"only {count:.0f} of {processes} processes find {path}: it must be on a file "
                "system that all nodes share"
            )


def _check_state(cfg: Any, task: Any, filename: str) -> bool:
    """Raise InputError if our task's dictionaries or model differ from a checkpoint's.

    Fine-tuning may change the dictionaries, with a warning, and needs no optimizer state; without
    it, fairseq would resume at update 0. Returns whether the checkpoint has a moving average.
    """
    state = safe_load.load(Path(filename), with_data=False)
    starts_anew = cfg.reset_optimizer or filename == cfg.finetune_from_model
    if not starts_anew and state.get("last_optimizer_state") is None:
        raise InputError(
            f"{filename} holds no optimizer state, so training cannot resume from it; to start a "
            f"new run from its weights, give --finetune-from-model {filename} and a different "
            "--save-dir"
        )
    trained = Identity.read(state.get("task_state"))
    trained.check_settings(task.identity())
    try:
        task.check_dictionaries(trained)
    except InputError as error:
        if filename != cfg.finetune_from_model:
            raise
        logger.warning("fine-tuning with different dictionaries: %s", error)
    return "ema" in (state.get("extra_state") or {})


def _end_if_finished(trainer: Any, epoch: int) -> None:
    """End the training loop, and log it, if the run has reached one of its limits.

    epoch: the epoch in which training would resume.
    """
    limits, updates = trainer.cfg.optimization, trainer.get_num_updates()
    if 0 < limits.max_update <= updates:
        limit = f"--max-update {limits.max_update}"
    elif 0 < limits.max_epoch < epoch:
        limit = f"--max-epoch {limits.max_epoch}"
    elif 0 < limits.stop_time_hours * 3600 < trainer._previous_training_time:
        limit = f"--stop-time-hours {limits.stop_time_hours:g}"
    else:
        return
    logger.info(
        "this run has finished (%s, after %d updates): nothing left to train", limit, updates
    )
    limits.max_epoch = -1  # fairseq-train loops while the next epoch is at most max_epoch
