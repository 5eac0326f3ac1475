"""§4, Table 1: the cost of a layer of each type and its path length, next to measurements."""

from collections.abc import Callable
from typing import Any

from .. import plots
from ..html_page import COLOURS

#: The rows of Table 1, in its order: layer type, complexity, sequential operations, path length.
TABLE_1 = {
    "full": ("self-attention", "O(n²·d)", "O(1)", "O(1)"),
    "recurrent": ("recurrent (LSTM)", "O(n·d²)", "O(n)", "O(n)"),
    "convolutional": ("convolutional", "O(k·n·d²)", "O(1)", "O(logₖ n)"),
    "restricted": ("self-attention, restricted", "O(r·n·d)", "O(1)", "O(n/r)"),
}


def format_table() -> str:
    """Return Table 1 as text."""
    heads = ("Table 1: layer", "complexity", "sequential", "longest path")
    lines = [f"{a:<27} {b:<11} {c:<11} {d}" for a, b, c, d in (heads, *TABLE_1.values())]
    return "\n".join(lines)


#: The layers in the figure: title, colour, marker and line style. "unfused" is shown only if it
#: was measured.
STYLES = {
    "full": ("self-attention (torch's fused attention)", COLOURS[0], "o", "-"),
    "unfused": ("the same, equation (1) step by step", COLOURS[4], "v", ":"),
    "recurrent": ("recurrent (torch's LSTM)", COLOURS[2], "^", "-"),
    "convolutional": ("convolutional (torch's Conv1d), k = {kernel}", COLOURS[3], "D", "-"),
    "restricted": ("restricted self-attention, r = {neighbourhood}", COLOURS[1], "s", "-"),
}


def draw_figure(results: dict[str, Any]) -> Any:
    """Return Table 1 as a figure: its rows are the legend of the curves below it.

    results: as written by `aiayn benchmark attention --output`. The curves show, over n, the time
    of one layer, forward and backward, and the memory of its forward pass.
    """
    chart = plots.new_figure(8.5, 6.2)
    above, below = chart.subfigures(2, 1, height_ratios=[1.8, 4.4])
    _draw_table(above.subplots(), results)
    time, memory = below.subplots(1, 2)
    _draw_curves(time, results["rows"], lambda row: row["forward_s"] + row["backward_s"])
    time.set(title="Time of one layer, forward and backward", ylabel="seconds")
    _draw_curves(memory, results["rows"], lambda row: row["forward_bytes"])
    memory.set(title="Memory of the forward pass", ylabel="bytes")
    threads = f", threads: {results['threads']}" if results["threads"] else ""
    below.supxlabel(
        f"One sentence of n positions, d = {results['d_model']}, float32; medians of "
        f"{results['runs']} runs on {results['device']}{threads}.\nAttention has 8 heads; its time "
        "includes its four projections, 4·n·d², which Table 1 does not count.",
        fontsize=8,
    )
    return chart


def _draw_curves(axes: Any, rows: list[dict], quantity: Callable[[dict], float]) -> None:
    """Draw a curve over n for each measured layer, on two logarithmic axes."""
    for name, (_, colour, marker, line) in STYLES.items():
        points = [(row["n"], quantity(row)) for row in rows if row["layer"] == name]
        if points:
            style = {"color": colour, "marker": marker, "linestyle": line, "markersize": 4}
            axes.plot(*zip(*points, strict=True), **style)
    axes.set(xlabel="n", yscale="log")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.tick_params(axis="x", labelsize=8)
    axes.title.set_fontsize(11)
    axes.grid(alpha=0.25)


def _draw_table(axes: Any, results: dict[str, Any]) -> None:
    """Draw the paper's columns, and the line style of each measured layer."""
    measured = {row["layer"] for row in results["rows"]}
    names = [name for name in STYLES if name in measured or name in TABLE_1]
    axes.set(xlim=(0, 1), ylim=(-len(names) - 0.6, 0.6))
    axes.set_axis_off()
    columns = (0.07, 0.42, 0.55, 0.805)
    heads = ("Layer type", "Complexity", "Sequential operations", "Maximum path length")
    for x, head in zip(columns, heads, strict=True):
        axes.text(x, 0, head, weight="bold", va="center")
    for number, name in enumerate(names, start=1):
        title, colour, marker, line = STYLES[name]
        if name in measured:
            style = {"color": colour, "marker": marker, "linestyle": line, "markersize": 5}
            axes.plot([0, 0.025, 0.05], [-number] * 3, markevery=[1], **style)
        row = TABLE_1["full" if name == "unfused" else name]
        cells = (title.format(**results), *row[1:])
        for x, cell in zip(columns, cells, strict=True):
            axes.text(x, -number, cell, va="center")
