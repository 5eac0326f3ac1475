"""Measure how training and translation scale with batch size, sentence length and beam size.

Trains and searches with a plugin model of the chosen size and random weights. All sentences of a
measurement have the same length, so nothing is padded, and every hypothesis is as long as its
source.
"""

import argparse
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import plots
from ..errors import InputError
from ..html_page import COLOURS
from ..kernels.cpu_runtime import prepare_cpu_for_search
from ..kernels.device import default_device, device_name
from ..kernels.packing import pack_linear_layers
from ..model.transformer import Transformer
from ..paper import SearchSettings, get_settings
from ..search import generate
from ..text.dictionary import SPECIAL_SYMBOLS, Vocabulary
from .measure import measure_time, write_json
from .train import ARCHITECTURES, PRECISIONS, VOCABULARY, training_options, write_random_data
from .train_worker import Training
from .worker import Worker

#: Sentence length for the measurements over beam sizes.
BEAM_LENGTH = 30


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--size", choices=sorted(ARCHITECTURES), default="base", help="size of the model")
    precision_help = "precision of training and search"
    add("--precision", choices=("float32", "bf16"), default="float32", help=precision_help)
    add_numbers = partial(add, nargs="+", type=int, metavar="N")
    add_numbers("--lengths", default=[10, 30, 100, 300], help="sentence lengths, in tokens")
    tokens_help = "tokens of a training batch, on each side"
    add_numbers("--max-tokens", default=[600, 1200, 2400, 4800], help=tokens_help)
    add_numbers("--beams", default=[1, 2, 4, 8, 16], help="beam sizes")
    add_numbers("--sentences", default=[1, 8, 64], help="sentences to translate at once")
    add("--runs", type=int, default=3, help="number of runs; medians are reported")
    add("--cpu", action="store_true", help="use the CPU even if there is a GPU")
    add("--output", type=Path, metavar="FILE.json", help="write the results as JSON")
    plot_help = "draw the results: .svg, .pdf or .png; needs matplotlib"
    add("--plot", type=Path, metavar="FILE", help=plot_help)


def run(args: argparse.Namespace) -> None:
    """Measure, print tables, write JSON and a figure. Raises InputError for invalid options."""
    if min(args.runs, *args.lengths, *args.max_tokens, *args.beams, *args.sentences) < 1:
        raise InputError(
            "--runs, --lengths, --max-tokens, --beams and --sentences must be at least 1"
        )
    if args.plot:
        plots.check(args.plot)
    device = "cpu" if args.cpu else default_device()
    results = {
        "device": device_name(device),
        "torch": torch.__version__,
        "threads": torch.get_num_threads() if device == "cpu" else None,
        "size": args.size,
        "precision": args.precision,
        "runs": args.runs,
        "training": _measure_training(args),
        "search": _measure_search(args, device),
    }
    if args.output:
        write_json(results, args.output)
    if args.plot:
        plots.save(draw_figure(results), args.plot)


def _measure_training(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return target tokens/s and peak bytes for each length and batch size."""
    rows = []
    print(f"{'training':<9} {'length':>6} {'batch':>7} {'target tokens/s':>16} {'memory':>10}")
    for length in args.lengths:
        for tokens in [tokens for tokens in args.max_tokens if tokens >= length]:
            with tempfile.TemporaryDirectory() as directory:
                # Two full batches: one to warm up, and one to measure.
                lengths = np.full(2 * (tokens // length), length - 1)
                data = write_random_data(Path(directory), lengths, lengths)
                argv = training_options(args, data, "plugin", args.precision, tokens)
                worker = Worker(Training, argv, Path(directory) / "log")
                speeds = [worker.call(Training.measure_speed, tokens, 1) for _ in range(args.runs)]
                peak = worker.call(Training.measure_memory, tokens)
                worker.close()
            rate = statistics.median(speed["tokens"] / speed["seconds"] for speed in speeds)
            rows.append({"length": length, "batch": tokens, "rate": rate, "bytes": peak})
            print(
                f"{'':<9} {length:>6} {tokens:>7,} {rate:>16,.0f} {peak / 1e9:>7.2f} GB",
                flush=True,
            )
    return rows


@torch.inference_mode()
def _measure_search(args: argparse.Namespace, device: str) -> list[dict[str, Any]]:
    """Return sentences/s for each number of sentences: over beams, then over lengths."""
    torch.manual_seed(1)
    settings = get_settings(ARCHITECTURES[args.size]["plugin"])
    model = Transformer(settings, VOCABULARY, VOCABULARY, (1024, 1024)).eval()
    model.to(device=device, dtype=PRECISIONS[args.precision])
    pack_linear_layers(model)
    prepare_cpu_for_search()
    rows = []
    print(f"{'search':<9} {'length':>6} {'beam':>7} {'sentences':>16} {'sentences/s':>13}")
    cases = [(BEAM_LENGTH, beam) for beam in args.beams]
    cases += [(length, SearchSettings.beam) for length in args.lengths]
    for sentences in args.sentences:
        for length, beam in dict.fromkeys(cases):
            source = torch.randint(len(SPECIAL_SYMBOLS), VOCABULARY, (sentences, length))
            source[:, -1] = Vocabulary.eos
            search = SearchSettings(beam, max_len_a=0, max_len_b=length - 1, min_len=length - 1)
            call = partial(generate, model, source.to(device), search)
            call()  # warm-up
            seconds = statistics.median(
                measure_time(call, torch.device(device))[1] for _ in range(args.runs)
            )
            row = {"length": length, "beam": beam, "sentences": sentences, "seconds": seconds}
            rows.append(row)
            print(
                f"{'':<9} {length:>6} {beam:>7} {sentences:>16} {sentences / seconds:>13.2f}",
                flush=True,
            )
    return rows


def draw_figure(results: dict[str, Any]) -> Any:
    """Return a figure of the results: two panels for training, two for the search."""
    chart = plots.new_figure(8.5, 6.4)
    (speed, memory), (beam, length) = chart.subplots(2, 2)
    training, search = results["training"], results["search"]
    for axes, quantity in ((speed, "rate"), (memory, "bytes")):
        for number, n in enumerate(dict.fromkeys(row["length"] for row in training)):
            points = [(row["batch"], row[quantity]) for row in training if row["length"] == n]
            _draw(axes, points, number, f"{n:,} tokens per sentence")
        axes.set(xlabel="tokens per batch, on each side")
    speed.set(title="Training", ylabel="target tokens/s")
    on_cpu = bool(results["threads"])
    measured = "of the forward and backward pass" if on_cpu else "that torch reserves"
    memory.set(title=f"Memory {measured}", ylabel="GB")
    for number, n in enumerate(dict.fromkeys(row["sentences"] for row in search)):
        label = f"{n:,} sentences at once" if n > 1 else "1 sentence at a time"
        mine = [row for row in search if row["sentences"] == n]
        for axes, fixed, value, growing in (
            (beam, "length", BEAM_LENGTH, "beam"),
            (length, "beam", SearchSettings.beam, "length"),
        ):
            points = [(row[growing], n / row["seconds"]) for row in mine if row[fixed] == value]
            _draw(axes, sorted(points), number, label)
    beam.set(title=f"Translating {BEAM_LENGTH} tokens", xlabel="beam", ylabel="sentences/s")
    length.set(title=f"Translating with beam {SearchSettings.beam}", ylabel="sentences/s")
    length.set(xlabel="tokens per sentence")
    for axes in (speed, memory, beam, length):
        is_log = axes in (beam, length)
        axes.set(xscale="log", yscale="log" if is_log else "linear")
        if is_log:
            axes.yaxis.get_major_locator().set_params(subs=(1, 2, 5))
        axes.yaxis.set_major_formatter("{x:,g}")
        ticks = sorted({x for line in axes.lines for x in line.get_xdata()})
        axes.set_xticks(ticks, [f"{x:,}" for x in ticks])
        axes.minorticks_off()
        axes.set_ylim(bottom=None if is_log else 0)
        axes.grid(alpha=0.25)
        axes.title.set_fontsize(11)
    memory.yaxis.set_major_formatter(lambda value, _: f"{value / 1e9:g}")
    memory.legend(fontsize=8)
    length.legend(fontsize=8)
    threads = f", threads: {results['threads']}" if results["threads"] else ""
    chart.supxlabel(
        f"{results['size']}, {results['precision']}, a vocabulary of {VOCABULARY:,}; medians of "
        f"{results['runs']} runs on {results['device']}{threads}",
        fontsize=8,
    )
    return chart


def _draw(axes: Any, points: list[tuple[int, float]], number: int, label: str) -> None:
    """Draw the curve with this number."""
    marker = "osD^v"[number % 5]
    style = {"marker": marker, "markersize": 4, "color": COLOURS[number % 8]}
    axes.plot(*zip(*points, strict=True), label=label, **style)
