"""Training curves over updates and over hours, of one run or of several."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from .. import plots
from ..html_page import COLOURS
from ..training.optimizer import learning_rate
from .document import Figure, LegendEntry
from .training_record import Point, TrainingRecord

#: Points per line; more would not be visible.
MAX_POINTS = 500
#: Line styles and their SVG dashes; each style is used with all colours before the next.
STYLES = {"-": "none", "--": "6 3", ":": "2 3", "-.": "7 3 2 3"}
#: A translucent grey for lines in the background.
BACKGROUND = "#80808080"
#: The quantities: title, name in the log, and whether they are drawn for the validation set too.
QUANTITIES = (
    ("loss", "loss", True),
    ("perplexity", "ppl", True),
    ("learning rate", "lr", False),
    ("target tokens per second", "wps", False),
    ("gradient norm", "gnorm", False),
    ("fairseq's BLEU", "bleu", True),
)


class Line(NamedTuple):
    """A line of a chart: (update, hours, value) for each of its points."""

    label: str
    points: list[tuple[int, float, float]]
    colour: str
    style: str = "-"
    width: float = 1.4

    def words(self) -> str:
        """Return where the line begins and ends."""
        (first, _, begin), *_ = self.points
        last, _, end = self.points[-1]
        return f"{self.label}: {begin:.4g} at update {first:,}, {end:.4g} at update {last:,}"


class Chart(NamedTuple):
    """The lines of one quantity, and (update, hours) of the restarts to mark."""

    title: str
    lines: list[Line]
    restarts: Sequence[tuple[int, float]] = ()


def build_run_charts(
    record: TrainingRecord, schedules: Mapping[str, tuple[int, int]]
) -> Iterator[Chart]:
    """Yield a chart for each quantity that a run logged, with training and validation.

    schedules: d_model and warm-up of curves of equation (3) to draw with the learning rate.
    """
    for title, name, in_validation in QUANTITIES:
        training = record.train or record.epochs
        validation = record.valid if in_validation else []
        if lines := _lines({"training": training, "validation": validation}, name):
            if name == "lr":  # the run is drawn over the broad lines of equation (3)
                lines = [*_equations(lines[0], schedules), *lines]
            yield Chart(title, lines, record.restarts)


def _equations(run: Line, schedules: Mapping[str, tuple[int, int]]) -> Iterator[Line]:
    for style, (label, sizes) in zip(("-", ":"), schedules.items(), strict=False):
        # After update k, fairseq logs the learning rate of update k + 1.
        rates = [(k, h, learning_rate(k + 1, *sizes)) for k, h, _ in run.points]
        yield Line(label, rates, BACKGROUND, style, width=6)


def build_comparison_charts(records: Mapping[str, TrainingRecord]) -> Iterator[Chart]:
    """Yield a chart per quantity, with a line per run, on the validation set if logged there."""
    for title, name, in_validation in QUANTITIES:
        curves = {
            run: record.valid if in_validation else record.train or record.epochs
            for run, record in records.items()
        }
        if lines := _lines(curves, name):
            yield Chart(f"{title} on the validation set" if in_validation else title, lines)


def _lines(curves: Mapping[str, Iterable[Point]], name: str) -> list[Line]:
    """Return the lines that have points; the first 32 differ in colour or style."""
    lines = []
    for number, (label, points) in enumerate(curves.items()):
        if known := [(p.update, p.hours, p.values[name]) for p in points if name in p.values]:
            shown = [*known[: -1 : -(-len(known) // MAX_POINTS)], known[-1]]
            style = list(STYLES)[number // len(COLOURS) % len(STYLES)]
            lines.append(Line(label, shown, COLOURS[number % len(COLOURS)], style))
    return lines


def build_figure(chart: Chart) -> Figure:
    """Return a chart over updates and over time, which is drawn when it is needed."""
    keys = [
        LegendEntry(line.label, line.colour, STYLES[line.style], line.width) for line in chart.lines
    ]
    keys += [LegendEntry("restart", "currentColor", "2 3")] * bool(chart.restarts)
    words = [line.words() for line in chart.lines[:30]]
    words += [f"restarted at update {update:,}" for update, _ in chart.restarts[:30]]
    return Figure(partial(_draw, chart), chart.title, "; ".join(words), keys)


def _draw(chart: Chart) -> tuple[str, str]:
    """Return a chart as SVG over updates and over time. Raises InputError without matplotlib."""
    is_short = max(line.points[-1][1] for line in chart.lines) < 1  # hours
    time_axis = (60, "minutes of training") if is_short else (1, "hours of training")
    svgs = []
    for place, (scale, unit) in enumerate(((1, "updates"), time_axis)):
        figure = plots.new_figure(4.6, 3)
        axes = figure.subplots()
        for line in chart.lines:
            axes.plot(
                [point[place] * scale for point in line.points],
                [value for _, _, value in line.points],
                line.style,
                color=line.colour,
                marker="." if len(line.points) < 30 and "equation" not in line.label else "",
                linewidth=line.width,
            )
        for start in chart.restarts[:30]:
            axes.axvline(start[place] * scale, color="k", linestyle=":", linewidth=1.6)
        axes.set_xlabel(unit)
        if "perplexity" in chart.title:
            axes.set_yscale("log")
            axes.yaxis.get_major_locator().set_params(subs=(1, 2, 5))
            axes.yaxis.set_major_formatter("{x:,g}")
            axes.yaxis.set_minor_formatter("")
        axes.grid(True, color="#808080", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        svgs.append(plots.inline_svg(figure))
    return svgs[0], svgs[1]
