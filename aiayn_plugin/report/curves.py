"""The curves of a training over updates and over hours, of one run or of several."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import plots
from ..html_page import COLOURS
from ..training.optimizer import learning_rate
from .document import Figure
from .training_record import Point, TrainingRecord

#: Points of a line; more could not be seen.
MAX_POINTS = 500
LEGEND_COLUMNS = 5
#: Styles of lines, each with all colours before the next one.
STYLES = ("-", "--", ":", "-.")
#: The quantities: title, name in the log, and whether training and validation log it.
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
    """A line of a chart: (update, hours, value) for each of its points."""

    label: str
    points: list[tuple[int, float, float]]
    colour: str
    style: str = "-"

    def words(self) -> str:
        """Return where the line begins and ends."""
        (first, _, begin), *_ = self.points
        last, _, end = self.points[-1]
        return f"{self.label}: {begin:.4g} at update {first:,}, {end:.4g} at update {last:,}"


@dataclass(frozen=True)
class Chart:
    """The lines of one quantity, and (update, hours) of the restarts to mark."""

    title: str
    lines: list[Line]
    restarts: Sequence[tuple[int, float]] = ()


def charts_of_run(
    record: TrainingRecord, schedules: Mapping[str, tuple[int, int]]
) -> Iterator[Chart]:
    """Yield a chart for each quantity that a run logged, with training and validation.

    schedules: d_model and warm-up of curves of equation (3) to draw with the learning rate.
    """
    for title, name, in_training, in_validation in QUANTITIES:
        curves = {"training": record.train or record.epochs} if in_training else {}
        curves |= {"validation": record.valid} if in_validation else {}
        lines = _lines(curves, name)
        if name == "lr" and lines:
            # After update k, fairseq logs the learning rate of update k + 1.
            for style, (label, (d_model, warmup)) in zip(
                ("--", ":"), schedules.items(), strict=False
            ):
                rates = [
                    (k, h, learning_rate(k + 1, d_model, warmup)) for k, h, _ in lines[0].points
                ]
                lines.append(Line(label, rates, COLOURS[1], style))
        if lines:
            yield Chart(title, lines, record.restarts)


def charts_of_runs(records: Mapping[str, TrainingRecord]) -> Iterator[Chart]:
    """Yield a chart for each quantity with one line per run, of the validation if it has any."""
    for title, name, _, in_validation in QUANTITIES:
        curves = {
            run: record.valid if in_validation else record.train or record.epochs
            for run, record in records.items()
        }
        if lines := _lines(curves, name):
            yield Chart(f"{title} of the validation" if in_validation else title, lines)


def _lines(curves: Mapping[str, Iterable[Point]], name: str) -> list[Line]:
    """Return the lines that have points; the first 32 differ in colour or style."""
    lines = []
    for number, (label, points) in enumerate(curves.items()):
        known = [(p.update, p.hours, p.values[name]) for p in points if name in p.values]
        step = -(-len(known) // MAX_POINTS) or 1
        again, place = divmod(number, len(COLOURS))
        style = STYLES[again % len(STYLES)]
        lines.append(Line(label, [*known[:-1:step], *known[-1:]], COLOURS[place], style))
    return [line for line in lines if line.points]


def draw(chart: Chart) -> Figure:
    """Return a chart over updates and over time. Raises InputError without matplotlib."""
    lines, restarts = chart.lines, chart.restarts
    figure = plots.new_figure(11, 3 + 0.2 * -(-len(lines) // LEGEND_COLUMNS))
    is_short = max(line.points[-1][1] for line in lines) < 1  # hours
    time_axis = (60, "minutes of training") if is_short else (1, "hours of training")
    handles: list[Any] = []
    both = zip(figure.subplots(1, 2, sharey=True), ((1, "updates"), time_axis), strict=True)
    for place, (axes, (scale, unit)) in enumerate(both):
        handles = []
        for line in lines:
            x, y = ([point[n] for point in line.points] for n in (place, 2))
            marker = "." if len(y) < 30 and "equation" not in line.label else ""
            look = {"color": line.colour, "marker": marker, "linewidth": 1.4}
            handles += axes.plot([value * scale for value in x], y, line.style, **look)
        for n, start in enumerate(restarts):
            look = {"color": "#000000", "linestyle": ":", "linewidth": 1.6}
            mark = axes.axvline(start[place] * scale, **look)
            handles += [] if n else [mark]
        axes.set_xlabel(unit)
        axes.grid(True, color="#808080", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_yscale("log" if "perplexity" in chart.title else "linear")
    # matplotlib leaves out labels that begin with "_", and reads "$" as mathematics
    labels = [f" {line.label[:60]}" for line in lines] + [" restart"] * bool(restarts)
    where: dict[str, Any] = {"loc": "outside upper left", "ncols": LEGEND_COLUMNS}
    for text in figure.legend(handles, labels, frameon=False, fontsize=9, **where).get_texts():
        text.set_parse_math(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about letters that only the reader's fonts have
        svg = plots.inline_svg(figure)
    words = [line.words() for line in lines[:30]]
    words += [f"restarted at update {update:,}" for update, _ in restarts[:30]]
    return Figure(svg, chart.title, "; ".join(words))
