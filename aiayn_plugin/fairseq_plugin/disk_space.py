"""Disk space for the checkpoints of a training run."""

import logging
import shutil
from pathlib import Path

from omegaconf import DictConfig

logger = logging.getLogger(__name__)


def check_disk_space(cfg: DictConfig, parameters: int) -> None:
    """Log the space that a run's checkpoints need, and warn if the disk has less."""
    directory = cfg.checkpoint.save_dir
    needed = needed_bytes(cfg, parameters)
    available = free_bytes(directory) + used_bytes(directory)
    keeps_every_epoch = (
        not cfg.checkpoint.no_epoch_checkpoints and cfg.checkpoint.keep_last_epochs < 0
    )
    about = "at least" if keeps_every_epoch else "about"
    sizes = f"need {about} {needed / 1e9:.1f} GB; {available / 1e9:.1f} GB are available"
    logger.info("checkpoints in %s %s", directory, sizes)
    if needed > available:
        logger.warning(
            "not enough disk space for the checkpoints: free some, give a different --save-dir, or "
            "keep fewer checkpoints with --keep-interval-updates"
        )


def needed_bytes(cfg: DictConfig, parameters: int) -> int:
    """Return the size of the checkpoints that a run keeps: those to average, best and last.

    Without a limit on the epoch checkpoints to keep, only one is counted.
    """
    checkpoint = cfg.checkpoint
    if checkpoint.no_save:
        return 0
    copies = 1 if checkpoint.no_save_optimizer_state else 3  # weights and Adam's two moments
    copies += cfg.ema.store_ema * (1 + cfg.ema.ema_fp32)
    kept, interval = max(checkpoint.keep_best_checkpoints, 0), checkpoint.save_interval_updates
    if interval > 0:
        written = -(-cfg.optimization.max_update // interval)  # the last update is written too
        limits = checkpoint.keep_interval_updates, written
        kept += min((n for n in limits if n > 0), default=0)
    if not checkpoint.no_epoch_checkpoints:
        kept += max(checkpoint.keep_last_epochs, 1)
    return (kept + 2) * copies * 4 * parameters


def used_bytes(directory: str) -> int:
    """Return the size of the checkpoints in a directory; hard links to a file count once."""
    stats = (path.lstat() for path in Path(directory).glob("checkpoint*.pt"))
    return sum({stat.st_ino: stat.st_size for stat in stats}.values())


def free_bytes(directory: str) -> int:
    """Return the free space of the disk that holds, or will hold, a directory."""
    path = Path(directory).absolute()
    return shutil.disk_usage(next(p for p in (path, *path.parents) if p.exists())).free
