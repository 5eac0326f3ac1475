"""§4, Table 1: what one layer of each type costs, and how far apart it leaves two positions."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .. import plots
from ..html_page import COLOURS
from ..kernels.attention import Window
from ..model.restricted import centred_window


@dataclass(frozen=True)
class Sizes:
    """n positions of width d, kernels of k positions, and neighbourhoods of r."""

    n: int
    d: int
    k: int
    r: int


def pairs(n: int, window: Window) -> int:
    """Return how many pairs (i, j) of n positions there are in which i sees j.

    Of 5 positions that see one on each side: 5 · 3, less one at each end, are 13.
    """
    left, right = (min(far, n - 1) for far in window)
    return n * (left + right + 1) - left * (left + 1) // 2 - right * (right + 1) // 2


def full_operations(size: Sizes) -> int:
    """Return the multiply-adds of QKᵀ and of the weights times V: d for each pair in either."""
    return 2 * size.n**2 * size.d


def restricted_operations(size: Sizes) -> int:
    """Return the same of the pairs within a neighbourhood of r positions."""
    return 2 * pairs(size.n, centred_window(size.r)) * size.d


def recurrent_operations(size: Sizes) -> int:
    """Return those of an LSTM: at each step eight matrices of d × d, two for each of four gates."""
    return 8 * size.n * size.d**2


def convolutional_operations(size: Sizes) -> int:
    """Return those of a convolution: d × d for each pair of a position and one under its kernel."""
    return pairs(size.n, centred_window(size.k)) * size.d**2


def restricted_path(size: Sizes) -> float:
    """Return how many restricted layers carry a signal from any position to any other.

    A neighbourhood of r = 64 reaches 31 back, so 100 positions need ⌈99 / 31⌉ = 4 layers. One of 1
    or 2 looks back at nothing: no number of layers is enough.
    """
    back = centred_window(size.r).left
    if back == 0:
        return 1 if size.n == 1 else math.inf
    return max(1, math.ceil((size.n - 1) / back))


def convolutional_path(size: Sizes) -> float:
    """Return how many convolutions carry a signal from the first of n positions to the last.

    Their kernels look back, and are dilated by 1, k, k², … (as in ByteNet, which the paper cites),
    so that L layers see k^L positions. Kernels centred on a position would need one layer more, and
    near the ends some pairs of positions would stay apart.
    """
    layers = 1
    while size.k > 1 and size.k**layers < size.n:
        layers += 1
    return layers if size.k**layers >= size.n else math.inf


@dataclass(frozen=True)
class LayerType:
    """A row of Table 1: the paper's three columns, and the same as exact numbers."""

    title: str
    complexity: str
    sequential: str
    path: str
    #: Multiply-adds of the products that the paper counts. Attention's four projections, 4·n·d²
    #: more, are not among them.
    operations: Callable[[Sizes], int]
    #: Operations that have to wait for each other.
    in_a_row: Callable[[Sizes], int]
    longest_path: Callable[[Sizes], float]


#: The rows of Table 1, in its order.
TABLE_1: Mapping[str, LayerType] = {
    "full": LayerType(
        "self-attention", "O(n²·d)", "O(1)", "O(1)", full_operations, lambda size: 1, lambda size: 1
    ),
    "recurrent": LayerType(
        "recurrent (LSTM)",
        "O(n·d²)",
        "O(n)",
        "O(n)",
        recurrent_operations,
        lambda size: size.n,
        lambda size: size.n,
    ),
    "convolutional": LayerType(
        "convolutional",
        "O(k·n·d²)",
        "O(1)",
        "O(logₖ n)",
        convolutional_operations,
        lambda size: 1,
        convolutional_path,
    ),
    "restricted": LayerType(
        "self-attention, restricted",
        "O(r·n·d)",
        "O(1)",
        "O(n/r)",
        restricted_operations,
        lambda size: 1,
        restricted_path,
    ),
}


def text(size: Sizes) -> str:
    """Return Table 1, with exact numbers for one size."""
    head = (
        "layer",
        "complexity",
        "sequential",
        "longest path",
        "multiply-adds",
        "in a row",
        "path",
    )
    rows = [
        (
            row.title,
            row.complexity,
            row.sequential,
            row.path,
            f"{row.operations(size):,}",
            f"{row.in_a_row(size):,}",
            _number(row.longest_path(size)),
        )
        for row in TABLE_1.values()
    ]
    lines = [
        f"{a:<27} {b:<11} {c:<11} {d:<13} {e:>18} {f:>9} {g:>7}"
        for a, b, c, d, e, f, g in (head, *rows)
    ]
    return "\n".join(
        [
            f"Table 1; the last three columns at n = {size.n:,}, d = {size.d:,}, k = {size.k:,}, "
            f"r = {size.r:,}",
            *lines,
        ]
    )


def _number(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:,}"


#: How the layers look in the figure: title, colour, marker and line. "by-steps" is no layer type of
#: its own, and stands there only if it was measured.
STYLES = {
    "full": ("self-attention (torch's fused attention)", COLOURS[0], "o", "-"),
    "by-steps": ("the same by the steps of equation (1)", COLOURS[4], "v", ":"),
    "recurrent": ("recurrent (torch's LSTM)", COLOURS[2], "^", "-"),
    "convolutional": ("convolutional (torch's Conv1d), k = {kernel}", COLOURS[3], "D", "-"),
    "restricted": ("restricted self-attention, r = {neighbourhood}", COLOURS[1], "s", "-"),
}


def figure(results: dict[str, Any]) -> Any:
    """Return Table 1 as a figure: the table above, whose rows are the legend of the curves below.

    results: as `aiayn benchmark attention --output` writes them. The curves are, over n, the time
    of one layer, forward and backward, and the memory of its forward pass.
    """
    chart = plots.new_figure(8.5, 6.2)
    above, below = chart.subfigures(2, 1, height_ratios=[1.8, 4.4])
    _draw_table(above.subplots(), results)
    time, memory = below.subplots(1, 2)
    _draw(time, results["rows"], lambda row: row["forward_s"] + row["backward_s"])
    time.set(title="Time of one layer, forward and backward", ylabel="seconds")
    _draw(memory, results["rows"], lambda row: row["forward_bytes"])
    memory.set(title="Memory of its forward pass", ylabel="bytes")
    threads = f", threads: {results['threads']}" if results["threads"] else ""
    below.supxlabel(
        f"One sentence of n positions, d = {results['d_model']}, float32; medians of "
        f"{results['runs']} on {results['device']}{threads}.\nAttention has 8 heads, and its time "
        "is that with its four projections, 4·n·d², which Table 1 leaves out.",
        fontsize=8,
    )
    return chart


def _draw(axis: Any, rows: list[dict], quantity: Callable[[dict], float]) -> None:
    """Draw a curve over n for each layer that was measured, on two logarithmic axes."""
    for name, (_, colour, marker, line) in STYLES.items():
        points = [(row["n"], quantity(row)) for row in rows if row["layer"] == name]
        if points:
            axis.plot(
                *zip(*points, strict=True),
                color=colour,
                marker=marker,
                linestyle=line,
                markersize=4,
            )
    axis.set(xlabel="n", yscale="log")
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.tick_params(axis="x", labelsize=8)
    axis.title.set_fontsize(11)
    axis.grid(alpha=0.25)


def _draw_table(axis: Any, results: dict[str, Any]) -> None:
    """Draw the paper's columns, and beside each layer that was measured its line."""
    measured = {row["layer"] for row in results["rows"]}
    names = [name for name in STYLES if name in measured or name in TABLE_1]
    axis.set(xlim=(0, 1), ylim=(-len(names) - 0.6, 0.6))
    axis.set_axis_off()
    columns = (0.07, 0.42, 0.55, 0.805)
    heads = ("Layer type", "Complexity", "Sequential operations", "Maximum path length")
    for x, head in zip(columns, heads, strict=True):
        axis.text(x, 0, head, weight="bold", va="center")
    for number, name in enumerate(names, start=1):
        title, colour, marker, line = STYLES[name]
        if name in measured:
            axis.plot(
                [0, 0.025, 0.05],
                [-number] * 3,
                color=colour,
                marker=marker,
                linestyle=line,
                markersize=5,
                markevery=[1],
            )
        row = TABLE_1["full" if name == "by-steps" else name]
        cells = (title.format(**results), row.complexity, row.sequential, row.path)
        for x, cell in zip(columns, cells, strict=True):
            axis.text(x, -number, cell, va="center")
