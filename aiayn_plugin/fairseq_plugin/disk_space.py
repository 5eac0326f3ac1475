"""The disk that the checkpoints of a training need."""

import logging
import os
import shutil
from pathlib import Path

from omegaconf import DictConfig

logger = logging.getLogger(__name__)


def check_disk(cfg: DictConfig, parameters: int) -> None:
    """Log what the checkpoints of a run will need, and warn if the disk has less."""
    directory = cfg.checkpoint.save_dir
    needed = disk_needed(cfg, parameters)
    free = disk_free(directory) + disk_used(directory)
    logger.info(
        "checkpoints in %s need about %.1f GB; %.1f GB are free for them",
        directory,
        needed / 1e9,
        free / 1e9,
    )
    if needed > free:
        logger.warning(
            "not enough disk for the checkpoints: make room, choose another --save-dir, or "
            "keep fewer with --keep-interval-updates"
        )


def disk_needed(cfg: DictConfig, parameters: int) -> int:
    """Return the bytes of the checkpoints that a run keeps: those to average, best and last."""
    checkpoint = cfg.checkpoint
    if checkpoint.no_save:
        return 0
    copies = 1 if checkpoint.no_save_optimizer_state else 3  # weights and Adam's two moments
    kept = 0
    if checkpoint.save_interval_updates > 0:
        kept = cfg.optimization.max_update // checkpoint.save_interval_updates
        if checkpoint.keep_interval_updates > 0:
            kept = checkpoint.keep_interval_updates
    return (kept + 2) * copies * 4 * parameters


def disk_used(directory: str) -> int:
    """Return the bytes of the checkpoints there; a file with two names counts once."""
    stats = (os.stat(path) for path in Path(directory).glob("checkpoint*.pt"))
    return sum({stat.st_ino: stat.st_size for stat in stats}.values())


def disk_free(directory: str) -> int:
    """Return the bytes free where a directory is, or will be made."""
    directory = os.path.abspath(directory)
    while not os.path.exists(directory):
        directory = os.path.dirname(directory)
    return shutil.disk_usage(directory).free
