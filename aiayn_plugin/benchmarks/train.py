"""`aiayn benchmark train`: the plugin's training beside fairseq's own, on the same batches."""

import argparse
import multiprocessing
import statistics
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, indexed_dataset

from ..errors import InputError
from ..kernels.device import device_name
from ..paper import get_settings
from . import train_worker as worker
from .measure import reason, write_json

#: For each size the plugin's architecture, and fairseq's own.
SIZES = {
    "base": ("aiayn_base", "transformer_wmt_en_de"),
    "big": ("aiayn_big", "transformer_vaswani_wmt_en_de_big"),
}
PRECISIONS = ("float32", "fp16", "amp", "memory-efficient-fp16", "bf16")
#: The paper's training in fairseq's words.
FAIRSEQ = [
    "--task",
    "translation",
    "--share-all-embeddings",
    "--optimizer",
    "adam",
    "--adam-betas",
    "(0.9, 0.98)",
    "--adam-eps",
    "1e-9",
    "--lr-scheduler",
    "inverse_sqrt",
    "--lr",
    "7e-4",
    "--warmup-updates",
    "4000",
    "--criterion",
    "label_smoothed_cross_entropy",
    "--label-smoothing",
    "0.1",
]
#: Random sentences for a run without data: about the lengths of WMT's English-German.
VOCABULARY, MEAN_LENGTH, SPREAD = 37_000, 28, 0.6
#: So many for each token of a batch. The more, the more alike are the lengths in a batch: these
#: have 5 to 6 % of padding, and WMT's 4.5M in batches of 25,000 tokens less than 1 %.
SENTENCES = 8

HELP = "training against fairseq's own Transformer"
DESCRIPTION = (
    "Target tokens per second and peak memory of the plugin's model and of "
    "fairseq's of the same size, alternating, on the same batches, each side in the best of "
    "its precisions. Without data: random words of a vocabulary of "
    f"{VOCABULARY:,}, lengths log-normal with mean {MEAN_LENGTH} and σ {SPREAD} of the "
    "logarithm, the target within a fifth of the source."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn benchmark train`."""
    add = parser.add_argument
    add("data", type=Path, nargs="?", metavar="DATA", help="a fairseq data directory")
    add("--size", choices=sorted(SIZES), default="base")
    add(
        "--precisions",
        nargs="+",
        choices=PRECISIONS,
        default=["float32"],
        help="of the plugin (default: float32)",
    )
    add(
        "--stock-precisions",
        nargs="+",
        choices=PRECISIONS,
        default=["float32"],
        help="of fairseq (default: float32)",
    )
    add(
        "--max-tokens",
        type=int,
        nargs="+",
        default=[2500],
        metavar="N",
        help="source or target tokens of a batch, with padding; the best of these for each side "
        "(default: 2500)",
    )
    add(
        "--memory-tokens",
        type=int,
        default=2500,
        metavar="N",
        help="tokens of the batch whose forward and backward pass is measured for memory "
        "(default: 2500 source and 2500 target tokens)",
    )
    add("--checkpoint-activations", action="store_true", help="in the plugin: less memory, slower")
    add("--runs", type=int, default=5, help="medians of so many (default: 5)")
    add("--updates", type=int, default=2, help="of each run (default: 2)")
    add(
        "--profile",
        action="store_true",
        help="print where the time of one of the plugin's updates goes",
    )
    add("--cpu", action="store_true")
    add("--output", type=Path, metavar="FILE.json")


class Side:
    """One training in a process of its own, which waits between measurements."""

    def __init__(
        self, args: argparse.Namespace, data: Path, way: str, precision: str, log: Path
    ) -> None:
        self.precision, self.log = precision, log
        arch = SIZES[args.size][way == "fairseq"]
        self.command = [
            str(data),
            "--arch",
            arch,
            "--num-workers",
            "0",
            "--max-tokens",
            str(max(*args.max_tokens, args.memory_tokens)),
            "--required-batch-size-multiple",
            "1",
            "--disable-validation",
            "--no-save",
            *(FAIRSEQ if way == "fairseq" else ["--tokens-per-update", "0"]),
            *(
                ["--checkpoint-activations"]
                if way == "plugin" and args.checkpoint_activations
                else []
            ),
            *(["--cpu"] if args.cpu else []),
            *([f"--{precision}"] if precision != "float32" else []),
        ]
        context = multiprocessing.get_context("spawn")
        self.process = ProcessPoolExecutor(1, context, worker.begin, (self.command, log))

    def ask(self, question: Callable, *details: Any) -> Any:
        """Return the answer to one question of train_worker. Raises InputError if it has none."""
        try:
            return self.process.submit(question, *details).result()
        except BrokenProcessPool:
            why = reason(self.log.read_text(encoding="utf-8"))
        except Exception as error:  # whatever ends a training, such as too little memory
            why = reason(str(error))
        raise InputError(f"the training {' '.join(self.command)} failed: {why}")

    def close(self) -> None:
        """End the process."""
        self.process.shutdown()


def run(args: argparse.Namespace) -> None:
    """Measure and print. Raises InputError if a training cannot run."""
    with tempfile.TemporaryDirectory() as directory:
        data = args.data or write_random_data(Path(directory), SENTENCES * max(args.max_tokens))
        ways = {"plugin": args.precisions, "fairseq": args.stock_precisions}
        best = {
            way: _best(args, data, way, precisions, Path(directory))
            for way, precisions in ways.items()
        }
        speeds: dict[str, list[dict]] = {way: [] for way in ways}
        for _ in range(args.runs):
            for way, (side, max_tokens) in best.items():
                speeds[way].append(side.ask(worker.speed, max_tokens, args.updates))
        if args.profile:
            side, max_tokens = best["plugin"]
            print(side.ask(worker.profile_table, max_tokens))
        results = [
            _result(
                args,
                way,
                side.precision,
                max_tokens,
                speeds[way],
                side.ask(worker.matrix_rate),
                side.ask(worker.memory, args.memory_tokens),
            )
            for way, (side, max_tokens) in best.items()
        ]
        for side, _ in best.values():
            side.close()
    _report(args, *results)


def _best(
    args: argparse.Namespace, data: Path, way: str, precisions: list[str], directory: Path
) -> tuple[Side, int]:
    """Return the fastest of a side's precisions and batch sizes."""
    best: tuple[float, Side, int] | None = None
    for precision in precisions:
        side = Side(args, data, way, precision, directory / f"{way}.{precision}.log")
        rates = {}
        for max_tokens in args.max_tokens:
            speed = side.ask(worker.speed, max_tokens, args.updates)
            rates[max_tokens] = speed["tokens"] / speed["seconds"]
            print(
                f"{way:<8} {precision:<22} batches of {max_tokens:>6,}"
                f"{rates[max_tokens]:>10,.0f} target tokens/s",
                flush=True,
            )
        fastest = max(rates, key=rates.__getitem__)
        if best is not None and rates[fastest] <= best[0]:
            side.close()
            continue
        if best is not None:
            best[1].close()
        best = rates[fastest], side, fastest
    assert best is not None
    return best[1:]


def _result(
    args: argparse.Namespace,
    way: str,
    precision: str,
    max_tokens: int,
    speeds: list[dict],
    matrix_rate: float,
    peak_bytes: int,
) -> dict[str, Any]:
    """Return all figures of one side."""
    tokens_per_s = [speed["tokens"] / speed["seconds"] for speed in speeds]
    flops = statistics.median(speed["flops"] / speed["seconds"] for speed in speeds)
    paper = get_settings(SIZES[args.size][0])
    tokens = paper.max_update * paper.tokens_per_update
    return {
        "way": way,
        "precision": precision,
        "max_tokens": max_tokens,
        "tokens_per_s": tokens_per_s,
        "matrix_flops": matrix_rate,
        "of_matrix_rate": flops / matrix_rate,
        "peak_bytes": peak_bytes,
        "paper_hours": tokens / statistics.median(tokens_per_s) / 3600,
        "padding": speeds[0]["padding"],
    }


def _report(args: argparse.Namespace, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Print the table, and write it as JSON."""
    device = "cpu" if args.cpu or not torch.cuda.is_available() else "cuda"
    print(
        f"\n{args.size}, {args.data or 'random sentences'}, {device_name(device)}; "
        f"medians of {args.runs} runs of {args.updates} updates, alternating; "
        "the rate is that of a large matrix product"
    )
    for side in (ours, theirs):
        speeds = side["tokens_per_s"]
        print(
            f"{side['way']:<8} {side['precision']:<22} batches of {side['max_tokens']:>6,}"
            f"{statistics.median(speeds):>10,.0f} target tokens/s ({min(speeds):,.0f} to "
            f"{max(speeds):,.0f}){side['of_matrix_rate']:>7.1%} of "
            f"{side['matrix_flops'] / 1e12:.3g} TFLOP/s{side['peak_bytes'] / 1e9:>7.2f} GB"
            f"{side['paper_hours']:>9,.1f} h for the paper's run"
        )
    ratios = [a / b for a, b in zip(ours["tokens_per_s"], theirs["tokens_per_s"], strict=True)]
    print(
        f"plugin / fairseq: speed {statistics.median(ratios):.2f} ({min(ratios):.2f} to "
        f"{max(ratios):.2f}), peak memory {ours['peak_bytes'] / theirs['peak_bytes']:.2f} at "
        f"{args.memory_tokens:,} tokens; padding {ours['padding']:.1%}"
    )
    if args.output:
        write_json([ours, theirs], args.output)


def write_random_data(directory: Path, sentences: int) -> Path:
    """Write a fairseq data directory of so many random sentences, and return it."""
    generator = np.random.default_rng(1)
    words = Dictionary()
    for number in range(VOCABULARY - len(words)):
        words.add_symbol(f"w{number}")
    middle = np.log(MEAN_LENGTH) - SPREAD**2 / 2
    source = np.clip(generator.lognormal(middle, SPREAD, sentences).round(), 1, 250).astype(int)
    target = np.maximum(1, source * generator.uniform(0.8, 1.2, sentences)).astype(int)
    for lang, lengths in (("en", source), ("de", target)):
        words.save(str(directory / f"dict.{lang}.txt"))
        prefix = str(directory / f"train.en-de.{lang}")
        builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", vocab_size=VOCABULARY)
        for length in lengths:
            tokens = generator.integers(words.nspecial, VOCABULARY, length + 1)
            tokens[-1] = words.eos()
            builder.add_item(torch.from_numpy(tokens))
        builder.finalize(f"{prefix}.idx")
    return directory
