"""What the log of fairseq-train says: numbers after so many updates, starts, settings, facts."""

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: Records of --log-format simple: of some updates, of a validation, of an epoch.
INNER = re.compile(r"epoch \d+:\s+\d+ / \d+ (.*)")
VALID = re.compile(r"epoch \d+ \| valid on '([^']*)' subset \| (.*)")
EPOCH = re.compile(r"epoch \d+ \| (.*)")
#: The numbers of a record that are kept.
KEPT = ("loss", "ppl", "wps", "wpb", "bsz", "lr", "gnorm", "wall", "bleu")


@dataclass
class Point:
    """The numbers of a record, after so many updates and so many hours of training."""

    update: int
    hours: float
    values: dict[str, float]


@dataclass
class Start:
    """One start of fairseq-train: where it began, and what it had when it did."""

    time: str | None
    update: int = 0
    hours: float = 0.0
    records: int = 0  #: that it added


class Row(NamedTuple):
    """A setting: the paper's value and the run's, as text."""

    name: str
    paper: str
    run: str


@dataclass
class TrainingLog:
    """What the log says. Of updates that were taken twice, the later ones are here."""

    train: list[Point] = field(default_factory=list)
    valid: list[Point] = field(default_factory=list)
    epochs: list[Point] = field(default_factory=list)
    #: The starts whose updates are here still.
    starts: list[Start] = field(default_factory=list)
    #: Updates before the first one that the log shows.
    unseen: int = 0
    architecture: str | None = None
    settings: list[Row] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    last_time: str | None = None
    finished: bool = False
    faults: list[str] = field(default_factory=list)

    def curves(self) -> tuple[list[Point], ...]:
        """Return the records of all three kinds."""
        return self.train, self.valid, self.epochs

    @property
    def update(self) -> int:
        """The last update that is known."""
        return max((points[-1].update for points in self.curves() if points), default=0)

    @property
    def hours(self) -> float:
        """The hours of training up to the last update: without pauses, without what was lost."""
        return max((points[-1].hours for points in self.curves() if points), default=0.0)

    @property
    def state(self) -> str:
        """Whether the training has finished; only a log with heads says so."""
        if self.finished or self.last_time is None:
            return "finished" if self.finished else "whether it finished is not known"
        return f"not finished; its last line is of {self.last_time}"

    def restarts(self) -> list[Start]:
        """Return the starts that went on with earlier updates and added some."""
        return [start for start in self.starts if start.update and start.records]


def record(text: str) -> tuple[str, dict[str, float]] | None:
    """Return the kind of a record and its numbers, None for any other message.

    The kind is "inner", "train" (an epoch), or "valid on" and the name of a set. A number that is
    not finite is there as NaN.
    """
    pairs: dict[str, Any]
    if text.startswith("{"):
        try:
            pairs = json.loads(text)
        except (ValueError, RecursionError):
            return None
        prefix = next(
            (key[: -len("num_updates")] for key in pairs if key.endswith("num_updates")), None
        )
        if prefix is None:
            return None
        pairs = {key.removeprefix(prefix): value for key, value in pairs.items()}
        kind = prefix.removesuffix("_") or "inner"
        if prefix and not (kind == "train" and "wall" in pairs):  # a set may be named "train" too
            kind = f"valid on {kind}"
    elif match := INNER.fullmatch(text):
        kind, pairs = "inner", _pairs(match[1], ", ", "=")
    elif match := VALID.fullmatch(text):
        kind, pairs = f"valid on {match[1]}", _pairs(match[2], " | ", " ")
    elif match := EPOCH.fullmatch(text):
        kind, pairs = "train", _pairs(match[1], " | ", " ")
    else:
        return None
    numbers = {name: _number(pairs.get(name)) for name in ("num_updates", *KEPT)}
    return kind, {name: number for name, number in numbers.items() if number is not None}


def _pairs(text: str, between: str, within: str) -> dict[str, str]:
    return {
        name: value for name, _, value in (pair.partition(within) for pair in text.split(between))
    }


def _number(value: Any) -> float | None:
    try:
        number = float(value) if len(str(value)) < 40 else math.nan
    except (TypeError, ValueError):
        return None
    if abs(number) < 1e-30:  # no axis has room for less, or for more
        return 0.0
    return number if abs(number) < 1e30 else math.nan
