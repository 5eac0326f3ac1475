"""The curves of a training over updates and over hours, of one run or of several."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

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


class Line(NamedTuple):
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


class Chart(NamedTuple):
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
        if lines := _lines(curves, name):
            if name == "lr":
                for style, (label, sizes) in zip(("--", ":"), schedules.items(), strict=False):
                    # After update k, fairseq logs the learning rate of update k + 1.
                    rates = [(k, h, learning_rate(k + 1, *sizes)) for k, h, _ in lines[0].points]
                    lines.append(Line(label, rates, COLOURS[1], style))
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
        if known := [(p.update, p.hours, p.values[name]) for p in points if name in p.values]:
            shown = [*known[: -1 : -(-len(known) // MAX_POINTS)], known[-1]]
            style = STYLES[number // len(COLOURS) % len(STYLES)]
            lines.append(Line(label, shown, COLOURS[number % len(COLOURS)], style))
    return lines


def draw(chart: Chart) -> Figure:
    """Return a chart over updates and over time. Raises InputError without matplotlib."""
    lines, restarts = chart.lines, chart.restarts
    figure = plots.new_figure(11, 3 + 0.2 * -(-len(lines) // LEGEND_COLUMNS))
    left, right = figure.subplots(1, 2, sharey=True)
    is_short = max(line.points[-1][1] for line in lines) < 1  # hours
    time_axis = (60, "minutes of training") if is_short else (1, "hours of training")
    for place, (axes, scale, unit) in enumerate(((left, 1, "updates"), (right, *time_axis))):
        for line in lines:
            axes.plot(
                [point[place] * scale for point in line.points],
                [value for _, _, value in line.points],
                line.style,
                color=line.colour,
                marker="." if len(line.points) < 30 and "equation" not in line.label else "",
                linewidth=1.4,
                # matplotlib leaves out labels that begin with "_"
                label=f" {line.label[:60]}",
            )
        for n, start in enumerate(restarts):
            label = "" if n else " restart"
            axes.axvline(start[place] * scale, color="k", linestyle=":", linewidth=1.6, label=label)
        axes.set(xlabel=unit, yscale="log" if "perplexity" in chart.title else "linear")
        axes.grid(True, color="#808080", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    legend = figure.legend(
        *axes.get_legend_handles_labels(),
        loc="outside upper left",
        ncols=LEGEND_COLUMNS,
        frameon=False,
        fontsize=9,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about letters that only the reader's fonts have
        svg = plots.inline_svg(figure)
    words = [line.words() for line in lines[:30]]
    words += [f"restarted at update {update:,}" for update, _ in restarts[:30]]
    return Figure(svg, chart.title, "; ".join(words))
