"""The record of a training run, `SAVE_DIR/run.jsonl`: its settings and what fairseq logs.

Six events: "start" (settings, versions, data, the update that was restored), "interval" and
"epoch" (training), "validation", "save" (after Ctrl-C), and "end". A resumed run appends to the
file. Only the first process records. Runs with `--no-save` are not recorded: their directory may be
another run's.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fairseq.distributed.utils import is_master
from fairseq.logging.progress_bar import BaseProgressBar
from omegaconf import DictConfig
from torch import nn

from ..text.settings import PAIRS_FILE, find_settings
from ..training.record import RECORD_FILE, append_record
from .model import paper_architecture
from .precision import name_precision
from .raw_text import first_directory
from .training_log import compare_with_paper, describe_environment

logger = logging.getLogger(__name__)


class Recorder(logging.Handler):
    """Records one run. It handles fairseq-train's log, which announces the end of training."""

    def __init__(self, task: Any, cfg: DictConfig, model: nn.Module) -> None:
        super().__init__()
        self.task, self.cfg = task, cfg
        self.parameters = sum(p.numel() for p in model.parameters())
        self.precision = name_precision(cfg.common, model)
        self.path: Path | None = Path(cfg.checkpoint.save_dir, RECORD_FILE)
        self.update: int | None = None  # None until the start is recorded
        self.is_out_of_time = False  # --stop-time-hours
        # fairseq's own clock, "wall", stops counting after some restarts.
        self.began = time.monotonic()
        text = find_settings(first_directory(task.cfg.data))
        languages = {name: task.cfg[name] for name in ("source_lang", "target_lang")}
        self.text = asdict(text) | languages if text else None

    def record(self, event: str, update: int | None, **fields: Any) -> None:
        """Append an event after an update."""
        self.update = update
        if self.path is None:
            return
        common = {
            "event": event,
            "update": update,
            "time": time.strftime("%Y-%m-%d %H:%M:%S"),
            "seconds": round(time.monotonic() - self.began, 3),
        }
        try:
            append_record(self.path, common | fields)
        except OSError as error:
            logger.warning("this run is no longer recorded: %s", error)
            self.path = None

    def emit(self, record: logging.LogRecord) -> None:
        """Record the end, which fairseq announces only in its log."""
        message = record.getMessage()
        if "stop_time_hours" in message:
            self.is_out_of_time = True
        if self.update is None or not message.startswith("done training in "):
            return
        if self.is_out_of_time and self.update < (self.cfg.optimization.max_update or math.inf):
            return  # the same command with more hours continues
        self.record("end", self.update)

    def settings(self) -> dict[str, Any]:
        """Return the fields of "start" that `aiayn report` shows."""
        cfg, task, architecture = self.cfg, self.task, self.cfg.model._name
        rows = compare_with_paper(cfg) if paper_architecture(architecture) else ()
        pairs, kept = first_directory(task.cfg.data) / PAIRS_FILE, None
        if pairs.is_file():
            with open(pairs, encoding="utf-8", errors="replace") as file:
                kept = file.readline(1000).strip()
        subsets = {"train": cfg.dataset.train_subset, "valid": cfg.dataset.valid_subset}
        dictionaries = {"source": task.source_dictionary, "target": task.target_dictionary}
        return {
            "format": 1,
            **describe_environment(cfg),
            "precision": self.precision,
            "devices": cfg.distributed_training.distributed_world_size,
            "seed": cfg.common.seed,
            "architecture": architecture,
            "settings": [{"name": name, "paper": paper, "run": run} for name, paper, run in rows],
            "parameters": self.parameters,
            "dictionaries": {side: len(entries) for side, entries in dictionaries.items()},
            "pairs": {
                name: len(task.datasets.get(subset.split(",")[0], ()))
                for name, subset in subsets.items()
            },
            "batches": asdict(plan) if (plan := task.batch_planner.plan) else None,
            "data": task.cfg.data,
            "kept": kept,
            "text": self.text,
        }


class RecordingBar(BaseProgressBar):
    """A fairseq progress bar whose statistics are recorded."""

    def __init__(self, bar: Any, recorder: Recorder, epoch: int | None, validates: bool) -> None:
        self.bar, self.recorder, self.epoch, self.validates = bar, recorder, epoch, validates
        self.iterable, self.update_config = bar, bar.update_config

    def __iter__(self):
        return iter(self.bar)

    def log(self, stats, tag=None, step=None) -> None:
        """Like the bar's; called every --log-interval updates."""
        self.recorder.record("interval", step, epoch=self.epoch, values=finite_values(stats))
        self.bar.log(stats, tag=tag, step=step)

    def print(self, stats, tag=None, step=None) -> None:
        """Like the bar's; called after an epoch or a validation."""
        event, subset = ("validation", {"subset": tag}) if self.validates else ("epoch", {})
        values = finite_values(stats)
        self.recorder.record(event, step, epoch=self.epoch, **subset, values=values)
        self.bar.print(stats, tag=tag, step=step)


#: The recorder of this process's run.
_recorder: Recorder | None = None


def record_training(task: Any, cfg: DictConfig, model: nn.Module) -> None:
    """Record the run that starts in this process, if its directory is local."""
    global _recorder
    log = logging.getLogger("fairseq_cli.train")
    if _recorder is not None:
        log.removeHandler(_recorder)
        _recorder = None
    saves = not cfg.checkpoint.no_save and Path(cfg.checkpoint.save_dir).is_dir()
    if saves and is_master(cfg.distributed_training):
        _recorder = Recorder(task, cfg, model)
        log.addHandler(_recorder)


def record_start(update: int) -> None:
    """Record the start of this process's run; update: the one it resumes from, or 0."""
    if _recorder is not None:
        _recorder.record("start", update, **_recorder.settings())


def record_save(update: int) -> None:
    """Record that the run ends with the checkpoint it has saved."""
    if _recorder is not None:
        _recorder.record("save", update)


def with_record(build: Callable) -> Callable:
    """Wrap fairseq's progress_bar: record the statistics of its bars as well."""

    def progress_bar(*args: Any, epoch: int | None = None, prefix: str | None = None, **kwargs):
        bar = build(*args, epoch=epoch, prefix=prefix, **kwargs)
        if _recorder is None:
            return bar
        return RecordingBar(bar, _recorder, epoch, validates=prefix is not None)

    return progress_bar


def finite_values(stats: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the statistics that are numbers; None for NaN and infinity."""
    values: dict[str, float | None] = {}
    for name, stat in stats.items():
        with suppress(TypeError, ValueError):  # not a number
            value = float(stat)
            values[name] = value if math.isfinite(value) else None
    return values
