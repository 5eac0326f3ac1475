"""`aiayn benchmark attention`: restricted self-attention (Table 1) beside full."""

import argparse
import statistics
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from ..boundary.loading import check_device
from ..errors import InputError
from ..model.attention import MultiHeadAttention
from ..view import plots
from .measure import device_name, peak_memory, timed, write_json

#: The ways that are compared: whether attention is restricted, and whether its weights are asked
#: for. With weights, equation (1) is computed step by step and not by torch's fused attention.
WAYS = {"restricted": (True, False), "full": (False, False), "full, by steps": (False, True)}

QUANTITIES = {"forward_s": "forward", "backward_s": "backward", "forward_bytes": "fwd memory",
              "backward_bytes": "bwd memory"}

HELP = "restricted self-attention (Table 1) against full"
DESCRIPTION = (
    "Time and peak memory, forward and backward apart, of one self-attention "
    "sub-layer of the encoder of the base model, restricted to a neighbourhood of r positions "
    "and full, for one sentence of n tokens."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn benchmark attention`."""
    parser.add_argument("--neighbourhood", type=int, default=64, metavar="R")
    parser.add_argument("--lengths", type=int, nargs="+", metavar="N",
                        default=[512, 1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--runs", type=int, default=5, help="medians of so many (default: 5)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--max-gigabytes", type=float, default=12.0, metavar="GB",
                        help="leave out what would need more memory (default: 12)")
    parser.add_argument("--output", type=Path, metavar="FILE.json")
    parser.add_argument("--plot", type=Path, metavar="FILE",
                        help="a figure: .svg, .pdf or .png; needs matplotlib")


def run(args: argparse.Namespace) -> None:
    """Measure, print a table, write JSON and a figure. Raises InputError for bad settings."""
    _check(args)
    rows: list[dict] = []
    print(f"{'n':>6} {'way':<15}" + "".join(f"{name:>12}" for name in QUANTITIES.values()))
    for n in args.lengths:
        for way, (restricted, by_steps) in WAYS.items():
            # about six n × n matrices of 8 heads in float32, forward and backward
            if by_steps and 6 * 8 * n * n * 4 / 1e9 > args.max_gigabytes:
                continue
            torch.manual_seed(1)
            module = MultiHeadAttention(
                d_model=512, h=8, d_k=64, d_v=64,
                neighbourhood=args.neighbourhood if restricted else None,
            ).to(args.device)  # fmt: skip
            x = torch.randn(1, n, 512, device=args.device, requires_grad=True)
            row = {"n": n, "way": way, **_measure(module, x, by_steps, args.runs)}
            rows.append(row)
            print(f"{n:>6} {way:<15}{row['forward_s'] * 1e3:>9.1f} ms"
                  f"{row['backward_s'] * 1e3:>9.1f} ms{row['forward_bytes'] / 1e6:>9.1f} MB"
                  f"{row['backward_bytes'] / 1e6:>9.1f} MB", flush=True)
    _print_ratios(rows, args.neighbourhood)
    results = {"device": device_name(args.device), "torch": torch.__version__,
               "threads": torch.get_num_threads(), "neighbourhood": args.neighbourhood,
               "rows": rows}
    if args.output:
        write_json(results, args.output)
    if args.plot:
        _plot(rows, args.neighbourhood, args.plot)


def _check(args: argparse.Namespace) -> None:
    if args.neighbourhood < 1 or args.runs < 1 or min(args.lengths) < 1:
        raise InputError("--neighbourhood, --runs and --lengths must be at least 1")
    if args.plot:
        plots.check_format(args.plot)
        plots.matplotlib()
    check_device(args.device)


def _measure(module: MultiHeadAttention, x: Tensor, by_steps: bool, runs: int) -> dict:
    """Return medians of seconds, and peaks of bytes beyond those held before each pass."""

    def forward() -> Tensor:
        return module(x, need_weights=by_steps)[0]

    slope = torch.randn_like(x)
    forward().backward(slope)  # the first run prepares what later ones use
    seconds: dict[str, list[float]] = {"forward_s": [], "backward_s": []}
    for _ in range(runs):
        x.grad = None
        module.zero_grad()
        out, taken = timed(forward, x.device)
        seconds["forward_s"].append(taken)
        _, taken = timed(partial(out.backward, slope), x.device)
        seconds["backward_s"].append(taken)
    x.grad = None
    module.zero_grad()
    forward_bytes = peak_memory(forward, x.device)
    out = forward()
    return {
        **{name: statistics.median(times) for name, times in seconds.items()},
        "forward_bytes": forward_bytes,
        # beyond what the forward pass keeps for it
        "backward_bytes": peak_memory(partial(out.backward, slope), x.device),
    }


def _print_ratios(rows: list[dict], r: int) -> None:
    """Print, for each n, the quantities of both ways of full attention over restricted's."""
    print(f"\nfull / restricted, r = {r}; first torch's fused attention, then by the steps of "
          "equation (1)")
    print(f"{'n':>6}" + 2 * "".join(f"{name:>12}" for name in QUANTITIES.values()))
    ratios: dict[int, list[float]] = {}
    restricted = {row["n"]: row for row in rows if row["way"] == "restricted"}
    for row in rows:
        if row["way"] != "restricted":
            ours = restricted[row["n"]]
            ratios.setdefault(row["n"], []).extend(row[q] / ours[q] for q in QUANTITIES)
    for n, values in ratios.items():
        print(f"{n:>6}" + "".join(f"{value:>12.2f}" for value in values))


def _plot(rows: list[dict], r: int, path: Path) -> None:
    panels = {"forward_s": "forward, s", "backward_s": "backward, s",
              "forward_bytes": "forward, bytes", "backward_bytes": "backward, bytes"}
    figure = plots.new_figure(16, 4)
    axes = figure.subplots(1, 4)
    for axis, (quantity, label) in zip(axes, panels.items(), strict=True):
        for way in WAYS:
            points = [(row["n"], row[quantity]) for row in rows if row["way"] == way]
            name = f"{way}, r = {r}" if way == "restricted" else way
            axis.plot(*zip(*points, strict=True), marker="o", label=name)
        axis.set(xlabel="n", ylabel=label, yscale="log")
        axis.set_xscale("log", base=2)
        axis.legend()
    figure.suptitle("Self-attention of the base model, one sentence of n tokens")
    plots.save(figure, path)
