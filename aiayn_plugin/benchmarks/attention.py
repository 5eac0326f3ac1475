"""`aiayn benchmark attention`: Table 1, measured; restricted self-attention above all."""

import argparse
import statistics
from collections.abc import Callable
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
from .measure import peak_memory, timed, write_json

#: What is measured. With weights asked for ("by-steps"), equation (1) is computed step by step and
#: not by torch's fused attention.
LAYERS = ("restricted", "full", "by-steps", "recurrent", "convolutional")
D_MODEL, H = get_settings("aiayn_base").d_model, get_settings("aiayn_base").h

QUANTITIES = {
    "forward_s": "forward",
    "backward_s": "backward",
    "forward_bytes": "fwd memory",
    "backward_bytes": "bwd memory",
}

HELP = "the layers of Table 1, restricted self-attention among them"
DESCRIPTION = (
    "Table 1 of the paper, and time and peak memory of one layer of each of its types, forward and "
    f"backward apart, for one sentence of n positions, d = {D_MODEL}: self-attention of the base "
    "model's encoder, full (by torch's fused attention, and by the steps of equation (1)) and "
    "restricted to a neighbourhood of r positions, torch's LSTM, and torch's Conv1d. All have the "
    "same input and take turns."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn benchmark attention`."""
    parser.add_argument(
        "--layers",
        nargs="+",
        choices=LAYERS,
        default=list(LAYERS),
        metavar="LAYER",
        help=f"which to measure: {', '.join(LAYERS)} (default: all)",
    )
    parser.add_argument("--neighbourhood", type=int, default=64, metavar="R", help="default: 64")
    parser.add_argument(
        "--kernel",
        type=int,
        default=3,
        metavar="K",
        help="positions that a convolution sees (default: 3)",
    )
    parser.add_argument(
        "--lengths",
        type=int,
        nargs="+",
        metavar="N",
        default=[16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
        help="default: the powers of two from 16 to 4096",
    )
    parser.add_argument("--runs", type=int, default=5, help="medians of so many (default: 5)")
    parser.add_argument("--device", default=default_device())
    parser.add_argument(
        "--max-gigabytes",
        type=float,
        default=12.0,
        metavar="GB",
        help="leave out what would need more memory (default: 12)",
    )
    parser.add_argument("--output", type=Path, metavar="FILE.json")
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="Table 1 and the measurements as a figure: .svg, .pdf or .png; needs matplotlib",
    )


def run(args: argparse.Namespace) -> None:
    """Measure, print tables, write JSON and a figure. Raises InputError for bad settings."""
    _check(args)
    rows: list[dict] = []
    print(f"{'n':>6} {'layer':<15}" + "".join(f"{name:>12}" for name in QUANTITIES.values()))
    for n in args.lengths:
        for row in _measure(n, args):
            rows.append(row)
            print(
                f"{n:>6} {row['layer']:<15}{row['forward_s'] * 1e3:>9.1f} ms"
                f"{row['backward_s'] * 1e3:>9.1f} ms{row['forward_bytes'] / 1e6:>9.1f} MB"
                f"{row['backward_bytes'] / 1e6:>9.1f} MB",
                flush=True,
            )
    _print_ratios(rows, args.neighbourhood)
    sizes = table1.Sizes(max(args.lengths), D_MODEL, args.kernel, args.neighbourhood)
    print(f"\n{table1.text(sizes)}")
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
        plots.save(table1.figure(results), args.plot)


def _check(args: argparse.Namespace) -> None:
    if min(args.neighbourhood, args.kernel, args.runs, *args.lengths) < 1:
        raise InputError("--neighbourhood, --kernel, --runs and --lengths must be at least 1")
    if args.plot:
        plots.check_format(args.plot)
        plots.matplotlib()
    check_device(args.device)


def make(name: str, r: int, k: int) -> nn.Module:
    """Return a layer of Table 1, always with the same weights."""
    torch.manual_seed(1)
    if name == "recurrent":
        return nn.LSTM(D_MODEL, D_MODEL, batch_first=True)
    if name == "convolutional":
        return nn.Conv1d(D_MODEL, D_MODEL, k, padding="same")
    return MultiHeadAttention(
        D_MODEL,
        H,
        d_k=D_MODEL // H,
        d_v=D_MODEL // H,
        neighbourhood=r if name == "restricted" else None,
    )


def output(name: str, layer: nn.Module, x: Tensor) -> Tensor:
    """Return what a layer makes of x (1, n, d_model), in the same shape."""
    if name == "convolutional":
        return layer(x.transpose(1, 2)).transpose(1, 2)
    if name == "by-steps":
        return layer(x, need_weights=True)[0]
    return layer(x)[0]


def _measure(n: int, args: argparse.Namespace) -> list[dict]:
    """Return a row for each layer: medians of seconds, and peaks of bytes beyond those held before.

    All layers see the same input, and take turns: a machine that slows down for a while slows them
    all.
    """
    # about six n × n matrices of 8 heads in float32, forward and backward
    too_large = 6 * H * n * n * 4 / 1e9 > args.max_gigabytes
    made = {
        name: make(name, args.neighbourhood, args.kernel).to(args.device)
        for name in args.layers
        if not (name == "by-steps" and too_large)
    }
    x = torch.randn(1, n, D_MODEL, device=args.device, requires_grad=True)
    slope = torch.randn_like(x)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in made}
    for run in range(args.runs + 1):
        for name, layer in made.items():
            _forget(layer, x)
            out, forward_s = timed(partial(output, name, layer, x), x.device)
            _, backward_s = timed(partial(out.backward, slope), x.device)
            if run > 0:  # the first prepares what later ones use
                times[name].append((forward_s, backward_s))
    rows = []
    for name, layer in made.items():
        forward_s, backward_s = map(statistics.median, zip(*times[name], strict=True))
        _forget(layer, x)
        rows.append(
            {
                "n": n,
                "layer": name,
                "forward_s": forward_s,
                "backward_s": backward_s,
                **_peaks(partial(output, name, layer, x), slope),
            }
        )
    return rows


def _forget(layer: nn.Module, x: Tensor) -> None:
    """Forget the gradients of the pass before."""
    x.grad = None
    layer.zero_grad()


def _peaks(forward: Callable[[], Tensor], slope: Tensor) -> dict[str, int]:
    forward_bytes = peak_memory(forward, slope.device)
    out = forward()
    # beyond what the forward pass keeps for it
    backward_bytes = peak_memory(partial(out.backward, slope), slope.device)
    return {"forward_bytes": forward_bytes, "backward_bytes": backward_bytes}


def _print_ratios(rows: list[dict], r: int) -> None:
    """Print, for each n, the quantities of both ways of full attention over restricted's."""
    restricted = {row["n"]: row for row in rows if row["layer"] == "restricted"}
    for layer, title in (
        ("full", "full, by torch's fused attention"),
        ("by-steps", "full, by the steps of equation (1)"),
    ):
        full = [row for row in rows if row["layer"] == layer and row["n"] in restricted]
        if full:
            print(f"\n{title}, over restricted, r = {r}")
            print(f"{'n':>6}" + "".join(f"{name:>12}" for name in QUANTITIES.values()))
        for row in full:
            print(
                f"{row['n']:>6}"
                + "".join(f"{row[name] / restricted[row['n']][name]:>12.2f}" for name in QUANTITIES)
            )
