"""§4, Table 1: the cost of a layer of each type, and the path length between two positions."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .. import plots
from ..html_page import COLOURS
from ..kernels.attention import Window
from ..model.restricted import centred_window


class Sizes(NamedTuple):
    """n positions of width d, kernels of k positions, and neighbourhoods of r positions."""

    n: int
    d: int
    k: int
    r: int


def count_pairs(n: int, window: Window) -> int:
    """Return the number of pairs (i, j) of n positions in which i sees j.

    For example, 5 positions that see one on each side have 5 · 3 pairs, less one at each end: 13.
    """
    left, right = (min(distance, n - 1) for distance in window)
    return n * (left + right + 1) - left * (left + 1) // 2 - right * (right + 1) // 2


def restricted_path(size: Sizes) -> float:
    """Return the number of restricted layers that connect any two positions.

    A neighbourhood of r = 64 reaches 31 positions back, so 100 positions need ⌈99 / 31⌉ = 4
    layers. One of 1 or 2 does not look back: no number of layers suffices.
    """
    back = centred_window(size.r).left
    if back == 0:
        return 1 if size.n == 1 else math.inf
    return max(1, math.ceil((size.n - 1) / back))


def convolutional_path(size: Sizes) -> float:
    """Return the number of convolutions that connect the first of n positions with the last.

    The kernels look back and are dilated by 1, k, k², … (as in ByteNet, which the paper cites), so
    that L layers see k^L positions. Kernels centred on a position would need one layer more, and
    would leave some pairs of positions near the ends unconnected.
    """
    layers = 1
    while size.k > 1 and size.k**layers < size.n:
        layers += 1
    return layers if size.k**layers >= size.n else math.inf


class LayerType(NamedTuple):
    """A row of Table 1: the paper's three columns, and the same as exact numbers."""

    title: str
    complexity: str
    sequential: str
    path: str
    #: Multiply-adds of the matrix multiplications that the paper counts: without attention's four
    #: projections, 4·n·d².
    operations: Callable[[Sizes], int]
    #: Operations that depend on each other.
    sequential_operations: Callable[[Sizes], int]
    longest_path: Callable[[Sizes], float]


#: The rows of Table 1, in its order.
TABLE_1: Mapping[str, LayerType] = {
    # QKᵀ and the weights times V: d multiply-adds per pair of positions in each.
    "full": LayerType(
        *("self-attention", "O(n²·d)", "O(1)", "O(1)"),
        *(lambda s: 2 * s.n**2 * s.d, lambda s: 1, lambda s: 1),
    ),
    # An LSTM's eight d × d matrices per step, two for each of four gates.
    "recurrent": LayerType(
        *("recurrent (LSTM)", "O(n·d²)", "O(n)", "O(n)"),
        *(lambda s: 8 * s.n * s.d**2, lambda s: s.n, lambda s: s.n),
    ),
    # d × d per pair of a position and one under its kernel.
    "convolutional": LayerType(
        *("convolutional", "O(k·n·d²)", "O(1)", "O(logₖ n)"),
        *(lambda s: count_pairs(s.n, centred_window(s.k)) * s.d**2, lambda s: 1),
        convolutional_path,
    ),
    "restricted": LayerType(
        *("self-attention, restricted", "O(r·n·d)", "O(1)", "O(n/r)"),
        *(lambda s: 2 * count_pairs(s.n, centred_window(s.r)) * s.d, lambda s: 1),
        restricted_path,
    ),
}


def format_table(size: Sizes) -> str:
    """Return Table 1, with exact numbers for one size."""
    layout = "{:<27} {:<11} {:<11} {:<13} {:>18} {:>9} {:>7}"
    head = "layer,complexity,sequential,longest path,multiply-adds,in a row,path".split(",")
    lines = [
        f"Table 1; the last three columns at n = {size.n:,}, d = {size.d:,}, k = {size.k:,}, "
        f"r = {size.r:,}",
        layout.format(*head),
    ]
    for row in TABLE_1.values():
        path = row.longest_path(size)
        numbers = [
            f"{row.operations(size):,}",
            f"{row.sequential_operations(size):,}",
            "∞" if math.isinf(path) else f"{path:,}",
        ]
        lines.append(layout.format(row.title, row.complexity, row.sequential, row.path, *numbers))
    return "\n".join(lines)


#: The layers in the figure: title, colour, marker and line style. "by-steps" is shown only if it
#: was measured.
STYLES = {
    "full": ("self-attention (torch's fused attention)", COLOURS[0], "o", "-"),
    "by-steps": ("the same by the steps of equation (1)", COLOURS[4], "v", ":"),
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
    memory.set(title="Memory of its forward pass", ylabel="bytes")
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
        row = TABLE_1["full" if name == "by-steps" else name]
        cells = (title.format(**results), row.complexity, row.sequential, row.path)
        for x, cell in zip(columns, cells, strict=True):
            axes.text(x, -number, cell, va="center")
