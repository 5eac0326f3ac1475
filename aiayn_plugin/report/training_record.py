"""The record of a training run, `run.jsonl`, as facts and curves.

The run may have been killed, restarted, or still be running. Lines that cannot be read are
counted and skipped, and memory stays bounded whatever the file holds.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .json_schema import conform

#: The facts of a start.
START = {
    **dict.fromkeys(("command", "versions", "device", "architecture", "kept", "precision"), str),
    **dict.fromkeys(("devices", "seed", "parameters"), int),
    "settings": [{"name": str, "paper": object, "run": object}],
    "dictionaries": {"source": int, "target": int},
    "pairs": {"train": int, "valid": int},
    "batches": {str: float},
    "text": {
        **dict.fromkeys(("source_lang", "target_lang", "tokenizer", "subword"), str),
        **{"codes_sha256": str, "merges": int, "vocabulary": int, "normalize_punctuation": bool},
        **{"inputs": {str: str}, "versions": {str: str}},
    },
}
LINE = {"event": str, "time": str, "update": int, "seconds": float, "subset": str, "values": dict}
#: The logged values that the report uses.
VALUES = dict.fromkeys(("loss", "ppl", "lr", "wps", "gnorm", "bleu", "wpb", "bsz"), float)
#: Limits: bytes per line and per file; points per curve, which is thinned by half beyond that.
MAX_LINE, MAX_BYTES, MAX_POINTS = 1 << 20, 1 << 28, 10_000


@dataclass
class Point:
    """The values that were logged after an update, and the hours of training until then."""

    update: int
    hours: float
    values: dict[str, float]


@dataclass
class TrainingRecord:
    """A training run. Updates that a restart repeated appear once, with their later values."""

    facts: dict[str, Any] = field(default_factory=lambda: conform({}, START))
    train: list[Point] = field(default_factory=list)
    valid: list[Point] = field(default_factory=list)
    epochs: list[Point] = field(default_factory=list)
    saves: list[Point] = field(default_factory=list)  #: after Ctrl-C, without values
    #: The update that each start restored, and the hours of training until then.
    starts: list[tuple[int, float]] = field(default_factory=list)
    unrecorded_updates: int = 0  #: before the first recorded start
    changed_devices: bool = False  #: whether starts used different devices
    last_time: str | None = None
    finished: bool = False
    faults: Counter[str] = field(default_factory=Counter)
    subset: str | None = None  #: the validation set that is shown: the first one

    @property
    def curves(self) -> dict[str, list[Point]]:
        """The points by event."""
        training = {"interval": self.train, "epoch": self.epochs, "save": self.saves}
        return {**training, "validation": self.valid}

    @property
    def update(self) -> int:
        """The last update."""
        return max((points[-1].update for points in self.curves.values() if points), default=0)

    @property
    def hours(self) -> float:
        """The hours of training, validation and saving, without pauses and lost updates."""
        return max((points[-1].hours for points in self.curves.values() if points), default=0.0)

    @property
    def restarts(self) -> list[tuple[int, float]]:
        """The starts that resumed the run and trained further."""
        return [start for start in self.starts if 0 < start[0] < self.update]

    @property
    def state(self) -> str:
        """Whether the run has finished."""
        if self.finished:
            return "finished"
        return f"not finished; last recorded at {self.last_time}" if self.last_time else "unknown"

    def read(self, line: bytes) -> None:
        """Add a line of the file."""
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            content = None
        fields = conform(content, LINE)
        event, update = fields["event"], fields["update"]
        if update is None or event not in ("start", "end", *self.curves):
            self.faults["line that is not a record of a training run"] += 1
            return
        self.last_time = (fields["time"] or "")[:40] or self.last_time
        self.finished = event == "end"
        if event == "start":
            before, self.facts = self.facts, conform(content, START)
            devices = [(facts["device"], facts["devices"]) for facts in (before, self.facts)]
            self.changed_devices |= bool(self.starts) and devices[0] != devices[1]
            self._restart(update)
        elif event == "validation":
            self.subset = self.subset or fields["subset"]
        if event in self.curves and (event != "validation" or fields["subset"] == self.subset):
            self._add(self.curves[event], update, fields)

    def _restart(self, update: int) -> None:
        """Continue after an update; discard later points, whose updates were lost."""
        for points in self.curves.values():
            while points and points[-1].update > update:
                points.pop()
        if not any(self.curves.values()):
            self.unrecorded_updates = update
        while self.starts and self.starts[-1][0] >= update:
            self.starts.pop()
        self.changed_devices &= bool(self.starts)
        self.starts.append((update, self.hours))
        if len(self.starts) > MAX_POINTS:
            del self.starts[1:-1:2]

    def _add(self, points: list[Point], update: int, fields: dict[str, Any]) -> None:
        while points and points[-1].update >= update:
            points.pop()
        before = self.starts[-1][1] if self.starts else 0.0
        hours = before + max(0.0, fields["seconds"] or 0.0) / 3600
        points.append(Point(update, hours, {}))
        logged = fields["values"] or {}
        for name, value in conform(logged, VALUES).items():
            if value is not None:
                points[-1].values[name] = value
            elif name in logged:
                self.faults[f"value of {name} that is not a finite number"] += 1
        if len(points) > MAX_POINTS:
            del points[1:-1:2]


def read_record(path: Path) -> TrainingRecord:
    """Return what a run.jsonl holds. Raises OSError if it cannot be read."""
    record = TrainingRecord()
    with open(path, "rb") as file:
        # An unterminated last line is being written, or its process was killed.
        while (line := file.readline(MAX_LINE)).endswith(b"\n") or len(line) == MAX_LINE:
            record.read(line)
            if file.tell() > MAX_BYTES:
                record.faults[f"part beyond the first {MAX_BYTES:,} bytes"] = 1
                break
    return record
