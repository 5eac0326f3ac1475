"""The record of a training run, `SAVE_DIR/run.jsonl`: its settings and what fairseq logs.

Four events: "start" (settings, versions, data, the update that was restored), "interval" and
"epoch" (training), "validation", and "end". A resumed run appends to the file. Only the first
process records. Runs with `--no-save` are recorded too, since fairseq creates their directory.
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
from fairseq.logging import metrics
from fairseq.logging.progress_bar import BaseProgressBar
from fairseq.utils import split_paths
from omegaconf import DictConfig
from torch import nn

from ..paper import ARCHITECTURES
from ..text.settings import PAIRS_FILE, SETTINGS_FILE, TextSettings
from ..training.record import RECORD_FILE, append_record
from .training_log import compare_with_paper, describe_environment

logger = logging.getLogger(__name__)


class Recorder(logging.Handler):
    """Records one run. It handles fairseq-train's log, which announces the end of training."""

    def __init__(self, task: Any, cfg: DictConfig, model: nn.Module) -> None:
        super().__init__()
        self.task = task
        self.cfg = cfg
        self.parameters = sum(p.numel() for p in model.parameters())
        self.path: Path | None = Path(cfg.checkpoint.save_dir, RECORD_FILE)
        self.started = False
        self.update = 0
        # fairseq's own clock, "wall", stops counting after some restarts.
        self.began = time.monotonic()

    def start(self) -> None:
        """Record the start, once: the checkpoint is restored and the data is loaded."""
        if not self.started:
            self.started = True
            # The trainer logs the update that it restores.
            meter = metrics.get_meter("default", "num_updates")
            self.update = int(meter.smoothed_value or 0) if meter else 0
            self._append("start", {"format": 1, **self._start_fields()})

    def record(self, event: str, update: int, stats: Mapping, **fields: Any) -> None:
        """Record what fairseq logs after an update. A value that is not finite is null."""
        self.update = update
        self._append(event, {**fields, "values": _finite_values(stats)})

    def emit(self, record: logging.LogRecord) -> None:
        """Record the end; fairseq announces it in its log and nowhere else."""
        if record.getMessage().startswith("done training in "):
            self.start()
            self._append("end", {})

    def _append(self, event: str, fields: Mapping[str, Any]) -> None:
        if self.path is None:
            return
        common = {
            "event": event,
            "update": self.update,
            "time": time.strftime("%Y-%m-%d %H:%M:%S"),
            "seconds": round(time.monotonic() - self.began, 3),
        }
        try:
            append_record(self.path, common | dict(fields))
        except OSError as error:
            logger.warning("this run is no longer recorded: %s", error)
            self.path = None

    def _start_fields(self) -> dict[str, Any]:
        """Return the fields of "start" that `aiayn report` shows."""
        cfg, task = self.cfg, self.task
        architecture = cfg.model._name
        rows = compare_with_paper(cfg) if architecture in ARCHITECTURES else ()
        data = Path(split_paths(task.cfg.data)[0])
        valid_subset = cfg.dataset.valid_subset.split(",")[0]
        return {
            **describe_environment(cfg),
            "devices": cfg.distributed_training.distributed_world_size,
            "seed": cfg.common.seed,
            "architecture": architecture,
            "settings": [{"name": name, "paper": paper, "run": run} for name, paper, run in rows],
            "parameters": self.parameters,
            "dictionaries": {
                "source": len(task.source_dictionary),
                "target": len(task.target_dictionary),
            },
            "pairs": {
                "train": len(task.datasets.get(cfg.dataset.train_subset, ())),
                "valid": len(task.datasets.get(valid_subset, ())),
            },
            "batches": asdict(plan) if (plan := task.batch_planner.plan) else None,
            "data": task.cfg.data,
            "kept": _first_line(data / PAIRS_FILE),
            "text": _text_settings(data / SETTINGS_FILE),
        }


class RecordingBar(BaseProgressBar):
    """A progress bar of fairseq's whose statistics are recorded."""

    def __init__(self, bar: Any, recorder: Recorder, epoch: int | None, validates: bool) -> None:
        self.bar = self.iterable = bar
        self.recorder = recorder
        self.epoch = epoch
        self.validates = validates

    def __iter__(self):
        return iter(self.bar)

    def log(self, stats, tag=None, step=None) -> None:
        """Like the bar's; called every --log-interval updates."""
        self.recorder.record("interval", step, stats, epoch=self.epoch)
        self.bar.log(stats, tag=tag, step=step)

    def print(self, stats, tag=None, step=None) -> None:
        """Like the bar's; called after an epoch or a validation."""
        if self.validates:
            self.recorder.record("validation", step, stats, epoch=self.epoch, subset=tag)
        else:
            self.recorder.record("epoch", step, stats, epoch=self.epoch)
        self.bar.print(stats, tag=tag, step=step)

    def update_config(self, config) -> None:
        """Like the bar's."""
        self.bar.update_config(config)


#: The recorder of this process's run.
_recorder: Recorder | None = None


def record_training(task: Any, cfg: DictConfig, model: nn.Module) -> None:
    """Record the run that starts in this process, if its directory is local."""
    global _recorder
    log = logging.getLogger("fairseq_cli.train")
    if _recorder is not None:
        log.removeHandler(_recorder)
        _recorder = None
    if is_master(cfg.distributed_training) and Path(cfg.checkpoint.save_dir).is_dir():
        _recorder = Recorder(task, cfg, model)
        log.addHandler(_recorder)


def with_record(build: Callable) -> Callable:
    """Wrap fairseq's progress_bar: record the statistics of its bars as well.

    Every value that fairseq-train logs passes through a progress bar, and fairseq has no hook for
    them.
    """

    def progress_bar(*args: Any, epoch: int | None = None, prefix: str | None = None, **kwargs):
        bar = build(*args, epoch=epoch, prefix=prefix, **kwargs)
        if _recorder is None:
            return bar
        _recorder.start()
        return RecordingBar(bar, _recorder, epoch, validates=prefix is not None)

    return progress_bar


def _finite_values(stats: Mapping[str, Any]) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    for name, stat in stats.items():
        with suppress(TypeError, ValueError):  # not a number
            value = float(stat)
            values[name] = value if math.isfinite(value) else None
    return values


def _first_line(path: Path) -> str | None:
    if not path.is_file():
        return None
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.readline(1000).strip()


def _text_settings(path: Path) -> dict[str, Any] | None:
    return asdict(TextSettings.load(path)) if path.is_file() else None
