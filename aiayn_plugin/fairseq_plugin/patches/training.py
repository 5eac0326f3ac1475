"""Mends of how a training of fairseq starts, goes on and ends."""

import logging
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from ...atomic import remove_leftovers
from ...checkpoints import safe_load as files
from ...errors import InputError
from ...search.oom import OUT_OF_MEMORY
from .saving import advice

logger = logging.getLogger(__name__)


def continued(load: Callable) -> Callable:
    """Return checkpoint_utils.load_checkpoint for a run that was killed, broken or finished.

    What a killed run left half-written is removed. A broken checkpoint_last.pt ends the command
    with the name of the newest whole checkpoint, for fairseq shows a stack trace. A finished run
    stays as it is, for fairseq takes another update. Can go when fairseq does this.
    """

    def load_checkpoint(cfg: Any, trainer: Any, **options: Any) -> tuple[Any, Any]:
        if trainer.data_parallel_rank == 0:
            remove_leftovers(Path(cfg.save_dir).glob("checkpoint*.pt.tmp"))
        try:
            extra_state, epochs = load(cfg, trainer, **options)
        except Exception as error:
            check_last(cfg, trainer.checkpoint_suffix, error)
            raise
        if extra_state is not None:
            end_if_finished(trainer, epochs)
        return extra_state, epochs

    return load_checkpoint


def check_last(checkpoint: Any, suffix: str, error: Exception) -> None:
    """Raise InputError if the checkpoint_last.pt that could not be restored is broken.

    checkpoint: that part of the configuration. The error becomes the cause.
    """
    last = Path(checkpoint.save_dir, f"checkpoint_last{suffix}.pt")
    if checkpoint.restore_file != "checkpoint_last.pt" or not last.is_file():
        return
    if broken := _fault(last):
        for path in newest_first(Path(checkpoint.save_dir), suffix):
            if _fault(path):
                continue
            whole = str(path).removesuffix(f"{suffix}.pt") + ".pt"
            raise InputError(
                f"{broken}; the newest whole one is {path}: continue from it once "
                f"with --restore-file {whole}"
            ) from error
        raise InputError(
            f"{broken}, and no other checkpoint in {checkpoint.save_dir} is whole: "
            "move it away to train from the start"
        ) from error


def _fault(path: Path) -> str | None:
    """Return what is broken about a checkpoint, None if nothing is or if it cannot be read."""
    try:
        files.check_intact(path)
        files.glance(path)
    except InputError as error:
        return str(error)
    except OSError:
        pass
    return None


def newest_first(directory: Path, suffix: str = "") -> Iterator[Path]:
    """Yield the checkpoints of a run but the last: by what their names say, then the best.

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


def end_if_finished(trainer: Any, epochs: Any) -> None:
    """Let a run that has its updates or epochs take no other, and say so in the log.

    epochs: fairseq's iterator. Its loop compares the next epoch with the last one of all.
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


def finite_gradients(clip: Callable) -> Callable:
    """Return Trainer.clip_grad_norm with one line for gradients that are NaN or infinite.

    fairseq takes the whole batch again, prints every weight's gradient, writes crash.pt and ends
    with a stack trace. An overflow that --fp16 or --amp can mend stays fairseq's. Can go when
    fairseq ends with one line.
    """

    def clip_grad_norm(trainer: Any, clip_norm: float) -> torch.Tensor:
        try:
            norm = clip(trainer, clip_norm)
        except FloatingPointError as error:  # of the loss scale
            scale = trainer.cfg.common.min_loss_scale
            raise InputError(
                f"update {trainer.get_num_updates() + 1}: the gradients overflow at "
                f"any loss scale down to --min-loss-scale {scale}: "
                f"{advice(trainer)}"
            ) from error
        if not (trainer.tpu or trainer.cfg.common.amp) and not torch.isfinite(norm).all():
            raise InputError(
                f"update {trainer.get_num_updates() + 1}: gradients are NaN or "
                f"infinite: {advice(trainer)}"
            )
        return norm

    return clip_grad_norm


def whole_updates(step: Callable) -> Callable:
    """Return Trainer.train_step that counts every token of an update.

    Where the batches of an epoch do not share out evenly among the processes, some processes get an
    empty batch at its end. Then fairseq counts none of their earlier batches of that update, though
    it adds their gradients. For example, two processes with two batches each of 100 tokens, the
    last one empty: it divides the gradient of 300 tokens by 200. Sharded models (fully_sharded) are
    left as they are: their processes have to take the same number of batches. Can go when fairseq
    leaves out the empty batch alone.
    """

    def train_step(trainer: Any, samples: list, *args: Any, **kwargs: Any) -> Any:
        parallel = trainer.cfg.distributed_training
        if trainer.data_parallel_world_size > 1 and parallel.ddp_backend != "fully_sharded":
            samples = [sample for sample in samples if sample] or samples
        return step(trainer, samples, *args, **kwargs)

    return train_step


def memory_of_all(step: Callable) -> Callable:
    """Return Trainer.train_step with one line for one of several processes that has no memory.

    fairseq drops its batch. So it leaves out a collective operation, and the other processes wait
    for it, or add up what does not belong together. Can go when all of fairseq's processes drop the
    update together.
    """

    def train_step(trainer: Any, samples: list, raise_oom: bool = False) -> Any:
        several = trainer.data_parallel_world_size > 1
        try:
            return step(trainer, samples, raise_oom or several)
        except RuntimeError as error:
            if not several or not OUT_OF_MEMORY.search(str(error)):
                raise
            raise InputError(
                f"update {trainer.get_num_updates() + 1}: out of memory: start the "
                "same command with a smaller --max-tokens (with --tokens-per-update "
                "updates stay as large)"
            ) from error

    return train_step


def finite_loss(step: Callable) -> Callable:
    """Return Trainer.train_step with one line for a loss that is NaN or infinite.

    fairseq looks at the gradients alone, and they may be finite. With --fp16 and --amp some losses
    overflow in the log only. Can go when fairseq looks at the loss.
    """

    def train_step(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        log = step(trainer, *args, **kwargs)
        common = trainer.cfg.common
        if log and not (trainer.tpu or common.fp16 or common.amp):
            if not torch.isfinite(torch.as_tensor(log.get("loss", 0.0))).all():
                raise InputError(
                    f"update {trainer.get_num_updates()}: the loss is {log['loss']}: "
                    f"{advice(trainer)}"
                )
        return log

    return train_step
