"""How a training went: its numbers over updates and over hours, of one run or of several."""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .. import plots
from ..html_page import COLOURS
from ..training.optimizer import learning_rate
from .document import Figure
from .history import Point, Start, TrainingLog

#: Points that a line has at most; more would not be seen.
MOST_POINTS = 500
#: Names beside each other in a legend.
LEGEND = 5
#: Styles of lines: when the colours are used up, they come again in the next one.
STYLES = ("-", "--", ":", "-.")
#: What is shown: its title, its name in a record, whether training and validation have it.
QUANTITIES = (
    ("loss", "loss", True, True),
    ("perplexity", "ppl", True, True),
    ("learning rate", "lr", True, False),
    ("target tokens per second", "wps", True, False),
    ("gradient norm", "gnorm", True, False),
    ("BLEU of the validation (fairseq's)", "bleu", False, True),
)


@dataclass(frozen=True)
class Line:
    """A line of a figure: updates, hours and values."""

    label: str
    points: list[tuple[int, float, float]]
    colour: str
    style: str = "-"
    measured: bool = True

    @property
    def marker(self) -> str:
        """Whether the points show: few of them, and measured ones."""
        return "." if len(self.points) < 30 and self.measured else ""

    def words(self) -> str:
        """Return where it begins and ends."""
        (first, _, begin), *_ = self.points
        last, _, end = self.points[-1]
        return f"{self.label}: {begin:.4g} at update {first:,}, {end:.4g} at update {last:,}"


def curves(
    logs: Mapping[str, TrainingLog], schedules: Mapping[str, tuple[int, int]]
) -> Iterator[Figure]:
    """Yield a figure for each quantity that was logged.

    logs: those of the runs, under their names. schedules: d_model and warm-up of curves of equation
    (3), which belong under the rates of one run. Restarts of one run are marked. Raises InputError
    without matplotlib.
    """
    alone = len(logs) == 1
    starts = [start for log in logs.values() for start in log.restarts()] if alone else []
    for title, name, in_training, in_validation in QUANTITIES:
        lines = []
        for number, (run, log) in enumerate(logs.items()):
            ways = [("training", log.train or log.epochs, *look(0))] * in_training
            ways += [("validation", log.valid, *look(1))] * in_validation
            if not alone:  # of a run there is one line, and of what tells more
                ways = [(run, ways[-1][1], *look(number))]
            lines += [
                Line(label, _values(points, name), colour, style)
                for label, points, colour, style in ways
            ]
        if name == "lr" and alone and lines[0].points:
            lines += _equation(next(iter(logs.values())), schedules)
        lines = [line for line in lines if line.points]
        if lines:
            where = "" if alone or not in_validation else " of the validation"
            yield _figure(f"{title}{where}", lines, starts, name == "ppl")


def look(number: int) -> tuple[str, str]:
    """Return colour and style of a line: each of the first 32 has its own."""
    again, place = divmod(number, len(COLOURS))
    return COLOURS[place], STYLES[again % len(STYLES)]


def _values(points: Iterable[Point], name: str) -> list[tuple[int, float, float]]:
    known = [(p.update, p.hours, p.values[name]) for p in points if name in p.values]
    step = -(-len(known) // MOST_POINTS) or 1
    return [*known[:-1:step], *known[-1:]]


def _equation(log: TrainingLog, schedules: Mapping[str, tuple[int, int]]) -> Iterator[Line]:
    """Yield equation (3); after update k the log has the rate of update k + 1."""
    for style, (label, (d_model, warmup)) in zip(("--", ":"), schedules.items(), strict=False):
        yield Line(
            label,
            [
                (update, hours, learning_rate(update + 1, d_model, warmup))
                for update, hours, _ in _values(log.train or log.epochs, "lr")
            ],
            COLOURS[1],
            style,
            False,
        )


def _figure(title: str, lines: list[Line], starts: list[Start], logarithmic: bool) -> Figure:
    figure = plots.new_figure(11, 3 + 0.2 * -(-len(lines) // LEGEND))
    handles: list[Any] = []
    short = max(line.points[-1][1] for line in lines) < 1  # hours
    scales = (1, "updates"), ((60, "minutes of training") if short else (1, "hours of training"))
    both = zip(figure.subplots(1, 2, sharey=True), scales, strict=True)
    for place, (axes, (scale, unit)) in enumerate(both):
        drawn = [
            axes.plot(
                [point[place] * scale for point in line.points],
                [point[2] for point in line.points],
                line.style,
                color=line.colour,
                linewidth=1.4,
                marker=line.marker,
            )[0]
            for line in lines
        ]
        marks = [
            axes.axvline(
                (start.update, start.hours)[place] * scale,
                color="#000000",
                linestyle=":",
                linewidth=1.6,
            )
            for start in starts
        ]
        handles = drawn + marks[:1]
        axes.set_xlabel(unit)
        axes.grid(True, color="#808080", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        if logarithmic:
            axes.set_yscale("log")
    labels = [line.label for line in lines] + ["restart"] * bool(starts)
    # matplotlib leaves out labels that begin with "_", and reads "$" as mathematics
    legend = figure.legend(
        handles,
        [f" {label[:60]}" for label in labels],
        frameon=False,
        loc="outside upper left",
        ncols=LEGEND,
        fontsize=9,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that its fonts lack, and the reader's have
        svg = plots.inline_svg(figure)
    words = "; ".join(line.words() for line in lines[:30])
    restarts = "".join(f"; restarted at update {start.update:,}" for start in starts[:30])
    return Figure(svg, title, words + restarts)
