"""Compare the layer types of Table 1.

Prints Table 1 of the paper, and measures time and peak memory of one layer of each type, forward
and backward, for one sentence of n positions with the base model's d_model: the base encoder's
self-attention, full (by torch's fused attention, and equation (1) step by step) and restricted
to a neighbourhood of r positions, torch's LSTM, and torch's Conv1d. The layers read the same input
and alternate.
"""

import argparse
import statistics
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from .. import plots
from ..errors import InputError
from ..kernels.device import check_device, default_device, device_name
from ..model.attention import MultiHeadAttention
from ..paper import get_settings
from . import table1
from .measure import measure_peak_memory, measure_time, write_json

#: "unfused" computes equation (1) step by step; "full" uses torch's fused attention.
LAYERS = ("restricted", "full", "unfused", "recurrent", "convolutional")
D_MODEL, H = get_settings("aiayn_base").d_model, get_settings("aiayn_base").h
#: The measured quantities and their columns.
QUANTITIES = {
    "forward_s": "forward",
    "backward_s": "backward",
    "forward_bytes": "fwd memory",
    "training_bytes": "fwd+bwd mem",
}
HEADER = "".join(f"{name:>12}" for name in QUANTITIES.values())


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    layers_help = f"layers to measure: {', '.join(LAYERS)} (default: all)"
    add("--layers", nargs="+", choices=LAYERS, default=LAYERS, metavar="LAYER", help=layers_help)
    neighbourhood_help = "positions in the window of restricted attention"
    add("--neighbourhood", type=int, default=64, metavar="R", help=neighbourhood_help)
    add("--kernel", type=int, default=3, metavar="K", help="width of the convolution")
    lengths = [2**power for power in range(4, 13)]
    add("--lengths", type=int, nargs="+", metavar="N", default=lengths, help="sentence lengths")
    add("--runs", type=int, default=5, help="number of runs; medians are reported")
    device_help = "torch device (default: the first GPU, or the CPU)"
    add("--device", default=default_device(), help=device_help)
    limit_help = "memory limit of unfused, which is skipped for lengths that need more"
    add("--max-gigabytes", type=float, default=12.0, metavar="GB", help=limit_help)
    add("--output", type=Path, metavar="FILE.json", help="write the results as JSON")
    plot_help = "draw Table 1 and the results: .svg, .pdf or .png; needs matplotlib"
    add("--plot", type=Path, metavar="FILE", help=plot_help)


def run(args: argparse.Namespace) -> None:
    """Measure, print tables, write JSON and a figure. Raises InputError for invalid options."""
    if min(args.neighbourhood, args.kernel, args.runs, *args.lengths) < 1:
        raise InputError("--neighbourhood, --kernel, --runs and --lengths must be at least 1")
    if args.plot:
        plots.check(args.plot)
    check_device(args.device)
    rows: list[dict] = []
    print(f"{'n':>6} {'layer':<15}{HEADER}")
    for n in args.lengths:
        for row in _measure(n, args):
            rows.append(row)
            print(
                f"{n:>6} {row['layer']:<15}{row['forward_s'] * 1e3:>9.1f} ms"
                f"{row['backward_s'] * 1e3:>9.1f} ms{row['forward_bytes'] / 1e6:>9.1f} MB"
                f"{row['training_bytes'] / 1e6:>9.1f} MB",
                flush=True,
            )
    _print_ratios(rows, args.neighbourhood)
    print(f"\n{table1.format_table()}")
    results = {
        "device": device_name(args.device),
        "torch": torch.__version__,
        "threads": torch.get_num_threads() if args.device == "cpu" else None,
        "neighbourhood": args.neighbourhood,
        "kernel": args.kernel,
        "d_model": D_MODEL,
        "runs": args.runs,
        "rows": rows,
    }
    if args.output:
        write_json(results, args.output)
    if args.plot:
        plots.save(table1.draw_figure(results), args.plot)


def build_layer(name: str, r: int, k: int) -> nn.Module:
    """Return a layer of Table 1, always with the same weights."""
    torch.manual_seed(1)
    if name == "recurrent":
        return nn.LSTM(D_MODEL, D_MODEL, batch_first=True)
    if name == "convolutional":
        return nn.Conv1d(D_MODEL, D_MODEL, k, padding="same")
    neighbourhood = r if name == "restricted" else None
    d_k = D_MODEL // H
    return MultiHeadAttention(D_MODEL, H, d_k=d_k, d_v=d_k, neighbourhood=neighbourhood)


def apply_layer(name: str, layer: nn.Module, x: Tensor) -> Tensor:
    """Return the output of a layer for x, both (1, n, d_model)."""
    if name == "convolutional":
        return layer(x.transpose(1, 2)).transpose(1, 2)
    if name == "unfused":
        return layer(x, need_weights=True)[0]
    return layer(x)[0]


def train_layer(name: str, layer: nn.Module, x: Tensor, gradient: Tensor) -> None:
    """Run the forward and the backward pass of a layer; gradient: of its output."""
    apply_layer(name, layer, x).backward(gradient)


def _measure(n: int, args: argparse.Namespace) -> list[dict]:
    """Return a row per layer: median seconds and peak bytes.

    The layers alternate, so that a temporary slowdown of the machine affects all.
    """
    # about six n × n matrices of 8 heads in float32, forward and backward
    is_too_large = 6 * H * n * n * 4 / 1e9 > args.max_gigabytes
    layers = {
        name: build_layer(name, args.neighbourhood, args.kernel).to(args.device)
        for name in args.layers
        if not (name == "unfused" and is_too_large)
    }
    x = torch.randn(1, n, D_MODEL, device=args.device, requires_grad=True)
    gradient = torch.randn_like(x)

    def clear_gradients(layer: nn.Module) -> None:
        x.grad = None
        layer.zero_grad()

    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in layers}
    for run in range(args.runs + 1):
        for name, layer in layers.items():
            clear_gradients(layer)
            out, forward_s = measure_time(partial(apply_layer, name, layer, x), x.device)
            _, backward_s = measure_time(partial(out.backward, gradient), x.device)
            if run > 0:  # the first run is a warm-up
                seconds[name].append((forward_s, backward_s))
    rows = []
    for name, layer in layers.items():
        forward_s, backward_s = map(statistics.median, zip(*seconds[name], strict=True))
        clear_gradients(layer)
        forward_bytes = measure_peak_memory(partial(apply_layer, name, layer, x), x.device)
        both_passes = partial(train_layer, name, layer, x, gradient)
        training_bytes = measure_peak_memory(both_passes, x.device)
        measured = (forward_s, backward_s, forward_bytes, training_bytes)
        rows.append({"n": n, "layer": name, **dict(zip(QUANTITIES, measured, strict=True))})
    return rows


def _print_ratios(rows: list[dict], r: int) -> None:
    """Print, for each n, the quantities of full attention divided by restricted attention's."""
    restricted = {row["n"]: row for row in rows if row["layer"] == "restricted"}
    for layer, title in (
        ("full", "full, by torch's fused attention"),
        ("unfused", "full, equation (1) step by step"),
    ):
        full = [row for row in rows if row["layer"] == layer and row["n"] in restricted]
        if full:
            print(f"\n{title}, relative to restricted, r = {r}")
            print(f"{'n':>6}{HEADER}")
        for row in full:
            ratios = (row[name] / restricted[row["n"]][name] for name in QUANTITIES)
            print(f"{row['n']:>6}" + "".join(f"{ratio:>12.2f}" for ratio in ratios))
