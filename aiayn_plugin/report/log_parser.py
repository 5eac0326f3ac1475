"""The log of fairseq-train, in its formats simple and json, as records.

A log may be of several starts, go on still, be cut off, or be something else: what cannot be read
is counted. Only what is needed stays in memory, whatever the log holds.
"""

import math
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from .history import Point, Row, Start, TrainingLog, record

#: The head of a line: fairseq-train's, and that of fairseq-hydra-train.
HEAD = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) \| [A-Z]+ \| [\w.-]+ \| (?P<text>.*)"
    r"|\[(?P<time2>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d+\]\[[\w.-]+\]\[[A-Z]+\] - (?P<text2>.*)",
    re.S,
)
#: The first message of a training.
FIRST = ("{'_name': None, 'common'", "Namespace(")
#: What is said once: names and patterns of their messages.
FACTS = {
    "parameters": re.compile(r"num\. (?:shared )?model params: (\d[\d,]{,19})"),
    "devices": re.compile(r"training on (\d{1,9}) devices"),
    "train_pairs": re.compile(r"\S+ train \w+-\w+ (\d{1,15}) examples"),
    "valid_pairs": re.compile(r"\S+ valid \w+-\w+ (\d{1,15}) examples"),
    "batches": re.compile(r"(\d[\d,]{0,15} updates per epoch, of .{,300})"),
    "versions": re.compile(r"versions: (.{,1000})"),
    "device": re.compile(r"device: (.{,1000})"),
    "gpu": re.compile(r"rank +0: capabilities = .{,100} name = (.{,100}?) *$"),
    "command": re.compile(r"command: (.{,10000})"),
}
#: What the configuration says of itself. It is never evaluated, and its enums are no literals.
SEED = re.compile(r"'seed': (\d{1,20})\b")
DICTIONARY = re.compile(r"\[\w+\] dictionary: (\d{1,12}) types")
TABLE = "the paper's settings and this run's:"
RESTORED = re.compile(r"Loaded checkpoint .* @ (\d{1,12}) updates\)|No existing checkpoint found")
DONE = ("done training in", "this run has finished")
#: Bytes of a line that is read; points of a curve, of which more are thinned out; starts.
LONGEST, MOST_POINTS, MOST_STARTS = 1 << 20, 10_000, 1_000


def read_log(path: Path) -> TrainingLog:
    """Return what a log holds. Raises OSError if it cannot be read."""
    with open(path, "rb") as file:
        return parse(file)


def parse(file: BinaryIO) -> TrainingLog:
    """Return what a log holds: an open file, or any bytes with readline()."""
    reader = _Reader()
    for number, line in _lines(file):
        reader.read(number, line)
    return reader.result()


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line with its number, None in the place of one that is too long."""
    number = 0
    while line := file.readline(LONGEST):
        number += 1
        long = False
        while len(line) == LONGEST and not line.endswith(b"\n"):
            long, line = True, file.readline(LONGEST)
        yield number, None if long else line


class _Reader:
    """The state between the lines of a log."""

    def __init__(self) -> None:
        self.log = TrainingLog()
        self.faults: dict[str, tuple[int, int]] = {}  # how many lines, and the first of them
        self.inside = ""  # the message of several lines that goes on: "table", "model" or none
        self.subset: str | None = None  # the validation set that is shown: the first one
        self.target_next = False  # whether the next dictionary is the target's
        self.base = self.wall = 0.0  # hours before this start, and fairseq's own count since then
        self.wall_time: str | None = None  # of the last such count
        self.first: int | None = None  # the log's first update, if no start is before it

    def read(self, number: int, line: bytes | None) -> None:
        """Take in a line."""
        if line is None:
            return self._fault(number, f"longer than {LONGEST:,} bytes")
        if not line.endswith(b"\n"):
            return self._fault(number, "cut off")
        try:
            text = line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            return self._fault(number, "no text in UTF-8")
        if head := HEAD.fullmatch(text):
            time = head["time"] or head["time2"]
            self.log.last_time = time
            self._message(number, time, head["text"] or head["text2"] or "")
        elif self.inside == "model":
            self.inside = "" if text == ")" else "model"
        elif found := record(text):  # --log-file has no heads
            self._point(number, None, *found)
        elif not (self.inside == "table" and self._row(text)) and text.strip():
            self._fault(number, "not of fairseq-train's log")

    def result(self) -> TrainingLog:
        """Return what was read."""
        if self.log.unseen:
            self.log.faults.append(f"the first {self.log.unseen:,} updates are not in the log")
        for reason, (count, first) in self.faults.items():
            self.log.faults.append(
                f"line {first} is {reason}"
                if count == 1
                else f"{count:,} lines are {reason}, the first is line {first}"
            )
        return self.log

    def _fault(self, number: int, reason: str) -> None:
        count, first = self.faults.get(reason, (0, number))
        self.faults[reason] = count + 1, first

    def _message(self, number: int, time: str, text: str) -> None:
        self.inside = "table" if text == TABLE else "model" if text.endswith("(") else ""
        if self.inside == "table":
            self.log.settings.clear()
        elif found := record(text):
            self._point(number, time, *found)
        elif text.startswith(FIRST):
            self._start(number, time, text)
        elif match := RESTORED.match(text):
            self._go_on(int(match[1] or 0))
        elif text.startswith(DONE):
            self.log.finished = True
        elif match := DICTIONARY.match(text):
            self.log.facts["target_words" if self.target_next else "source_words"] = match[1]
            self.target_next = True
        else:
            for name, pattern in FACTS.items():
                if match := pattern.match(text):
                    self.log.facts[name] = match[1]

    def _row(self, text: str) -> bool:
        """Take in a line of the table of settings, and return whether it is one."""
        if match := re.fullmatch(r"(aiayn_\w{1,50})(?: \(.{,100}\))?", text):
            self.log.architecture = match[1]
            return True
        cells = re.split(r"\s{2,}", text[:1000].removesuffix("< changed").strip())
        if len(cells) != 3 or not re.fullmatch(r"\w{1,50}", cells[0]):
            return False
        if cells[0] != "setting" and len(self.log.settings) < 100:
            self.log.settings.append(Row(*cells))
        return True

    def _start(self, number: int, time: str, configuration: str) -> None:
        self.log.finished = self.target_next = False
        if match := SEED.search(configuration):
            self.log.facts["seed"] = match[1]
        if len(self.log.starts) == MOST_STARTS:
            self._fault(number, f"a start beyond {MOST_STARTS:,}, in place of the one before")
            self.log.starts.pop()
        self.log.starts.append(Start(time))
        self._go_on(None)

    def _go_on(self, update: int | None) -> None:
        """Go on after an update (None: the last one). What was logged after it, is lost."""
        for points in self.log.curves():
            while update is not None and points and points[-1].update > update:
                points.pop()
        self.base, self.wall, self.wall_time = self.log.hours, 0.0, None
        if starts := self.log.starts:
            starts[-1].update = self.log.update if update is None else update
            starts[-1].hours = self.base
            while len(starts) > 1 and starts[-2].update >= starts[-1].update:
                del starts[-2]

    def _point(self, number: int, time: str | None, kind: str, values: dict[str, float]) -> None:
        update = values.pop("num_updates", -1.0)
        if not 0 <= update < 1e12:
            return self._fault(number, "a record without the number of its update")
        if kind not in ("inner", "train"):
            self.subset = self.subset or kind
            if kind != self.subset:
                return
        for name in [name for name, value in values.items() if math.isnan(value)]:
            del values[name]
            self._fault(number, f"not finite in {name}")
        self._begin(kind, int(update))
        points = {"inner": self.log.train, "train": self.log.epochs}.get(kind, self.log.valid)
        while points and points[-1].update >= update:
            points.pop()
        points.append(Point(int(update), self._hours(time, values.pop("wall", None)), values))
        if len(points) > MOST_POINTS:
            del points[1:-1:2]
        if self.log.starts:
            self.log.starts[-1].records += 1

    def _begin(self, kind: str, update: int) -> None:
        """Find out how many updates the log does not show, by what comes first in it.

        Without a start, they are those before the interval that two records have between them.
        """
        if not any(self.log.curves()):
            self.log.unseen = self.log.starts[-1].update if self.log.starts else 0
            self.first = None if self.log.starts or kind != "inner" else update
        elif self.first is not None and kind == "inner" and update > self.first:
            self.log.unseen = max(0, 2 * self.first - update)
            self.first = None

    def _hours(self, time: str | None, wall: float | None) -> float:
        """Return the hours of training until a record.

        fairseq counts the seconds since a start in whole ones; a validation has none, and is so
        much later than the record before it as the clock says.
        """
        if wall is not None:
            if wall / 3600 < self.wall:  # a start that the log does not show
                self.base += self.wall
            self.wall, self.wall_time = wall / 3600, time
            return self.base + self.wall
        return self.base + self.wall + _hours_between(self.wall_time, time)


def _hours_between(start: str | None, end: str | None) -> float:
    try:
        passed = datetime.fromisoformat(end or "") - datetime.fromisoformat(start or "")
    except ValueError:
        return 0.0
    return max(0.0, passed.total_seconds() / 3600)
