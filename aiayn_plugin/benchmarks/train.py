"""Compare the plugin's training with that of fairseq's own Transformer.

Measures target tokens per second and peak memory of the plugin's model and of fairseq's model of
the same size, alternating, each system with its fastest precision and batch size. Without
DATA, the sentences are random words from a vocabulary of the paper's size, with log-normal lengths
roughly those of WMT English-German; source and target lengths differ by at most a fifth.
"""

import argparse
import os
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.data import Dictionary, indexed_dataset

from ..errors import InputError
from ..kernels.device import device_name
from ..paper import get_settings
from .measure import write_json
from .train_worker import Training
from .worker import PLUGIN, Worker

#: The architectures of a size: the plugin's and fairseq's.
ARCHITECTURES = {
    "base": {"plugin": "aiayn_base", "fairseq": "transformer_wmt_en_de"},
    "big": {"plugin": "aiayn_big", "fairseq": "transformer_vaswani_wmt_en_de_big"},
}
#: The dtype of matrix multiplications in each precision.
PRECISIONS = {
    "float32": torch.float32,
    "fp16": torch.float16,
    "amp": torch.float16,
    "memory-efficient-fp16": torch.float16,
    "bf16": torch.bfloat16,
}
#: The paper's training with fairseq's options.
FAIRSEQ_OPTIONS = (
    "--task translation --share-all-embeddings --optimizer adam --adam-eps 1e-9 "
    "--lr-scheduler inverse_sqrt --lr 7e-4 --warmup-updates 4000 "
    "--criterion label_smoothed_cross_entropy --label-smoothing 0.1"
).split() + ["--adam-betas", "(0.9, 0.98)"]
#: Random sentences for a benchmark without data: roughly the lengths of WMT English-German.
VOCABULARY, MEAN_LENGTH, LENGTH_SIGMA = 37_000, 28, 0.6
#: Random sentences per token of a batch. With more, the lengths in a batch would be more alike,
#: and the padding lower, as with WMT's 4.5M sentences.
SENTENCES_PER_TOKEN = 8


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("data", type=Path, nargs="?", metavar="DATA", help="fairseq data directory")
    add("--size", choices=sorted(ARCHITECTURES), default="base", help="size of both models")
    add_list = partial(add, nargs="+")
    for option, system in (("--precisions", "the plugin"), ("--fairseq-precisions", "fairseq")):
        precision_help = f"precisions to try for {system}; the fastest is compared"
        add_list(option, choices=PRECISIONS, default=["float32"], help=precision_help)
    tokens_help = (
        "batch sizes to try, in tokens of the longer side with padding; the fastest is used"
    )
    add_list("--max-tokens", type=int, default=[2500], metavar="N", help=tokens_help)
    memory_help = "source and target tokens of the batch for peak memory"
    add("--memory-tokens", type=int, default=2500, metavar="N", help=memory_help)
    recompute_help = "recompute attention in the plugin: less memory, more time"
    add("--checkpoint-activations", action="store_true", help=recompute_help)
    add("--runs", type=int, default=5, help="number of runs; medians are reported")
    add("--updates", type=int, default=2, help="updates per run")
    profile_help = "print the most expensive operations of one of the plugin's updates"
    add("--profile", action="store_true", help=profile_help)
    add("--cpu", action="store_true", help="use the CPU even if there is a GPU")
    add("--output", type=Path, metavar="FILE.json", help="write the results as JSON")


def run(args: argparse.Namespace) -> None:
    """Measure both systems and print a comparison. Raises InputError if a training run fails."""
    if min(args.runs, args.updates, args.memory_tokens, *args.max_tokens) < 1:
        raise InputError("--runs, --updates, --max-tokens and --memory-tokens must be at least 1")
    precisions = {"plugin": args.precisions, "fairseq": args.fairseq_precisions}
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        lengths = random_lengths(SENTENCES_PER_TOKEN * max(args.max_tokens))
        data = args.data or write_random_data(folder, *lengths)
        systems = [
            _find_fastest(name, args, data, folder, choices) for name, choices in precisions.items()
        ]
        for number in range(args.runs):
            for system in systems:
                batches = system.max_tokens, args.updates, number, args.runs
                system.speeds.append(system.worker.call(Training.measure_speed, *batches))
        if args.profile:
            print(systems[0].worker.call(Training.profile_update, systems[0].max_tokens))
        results = [_summarise(system, args) for system in systems]
        for system in systems:
            system.worker.close()
    _print_comparison(args, *results)
    if args.output:
        write_json(results, args.output)


class System(NamedTuple):
    """The plugin's or fairseq's training in one precision, with its fastest batch size."""

    name: str
    worker: Worker
    precision: str
    max_tokens: int
    speeds: list[dict[str, float]]  #: of each run


def _find_fastest(
    name: str, args: argparse.Namespace, data: Path, folder: Path, precisions: list[str]
) -> System:
    """Compare a system's precisions and batch sizes, and return it with the fastest."""
    fastest, highest = None, 0.0
    for precision in precisions:
        capacity = max(*args.max_tokens, args.memory_tokens)
        argv = training_options(args, data, name, precision, capacity)
        argv += ["--checkpoint-activations"] * (args.checkpoint_activations and name == "plugin")
        worker = Worker(Training, argv, folder / f"{name}.{precision}.log")
        rates = {}
        for max_tokens in args.max_tokens:
            batches = max_tokens, args.updates, args.runs // 2, args.runs
            speed = worker.call(Training.measure_speed, *batches)
            rates[max_tokens] = speed["tokens"] / speed["seconds"]
            print(
                f"{name:<8} {precision:<22} batches of {max_tokens:>6,}"
                f"{rates[max_tokens]:>10,.0f} target tokens/s",
                flush=True,
            )
        best = max(rates, key=rates.__getitem__)
        if rates[best] > highest:
            if fastest is not None:
                fastest.worker.close()
            fastest, highest = System(name, worker, precision, best, []), rates[best]
        else:
            worker.close()
    assert fastest is not None
    return fastest


def _summarise(system: System, args: argparse.Namespace) -> dict[str, Any]:
    """Return a system's results over all runs."""
    tokens_per_s = [speed["tokens"] / speed["seconds"] for speed in system.speeds]
    flops_per_s = statistics.median(speed["flops"] / speed["seconds"] for speed in system.speeds)
    matmul_flops = system.worker.call(Training.measure_matmul, PRECISIONS[system.precision])
    paper = get_settings(ARCHITECTURES[args.size]["plugin"])
    paper_tokens = paper.max_update * paper.tokens_per_update
    return {
        "system": system.name,
        "precision": system.precision,
        "max_tokens": system.max_tokens,
        "tokens_per_s": tokens_per_s,
        "matmul_flops": matmul_flops,
        "matmul_share": flops_per_s / matmul_flops,
        "peak_bytes": system.worker.call(Training.measure_memory, args.memory_tokens),
        "paper_hours": paper_tokens / statistics.median(tokens_per_s) / 3600,
        "padding": statistics.fmean(speed["padding"] for speed in system.speeds),
    }


def training_options(
    args: argparse.Namespace, data: Path, system: str, precision: str, max_tokens: int
) -> list[str]:
    """Return fairseq-train's arguments for a system. args: a benchmark's size and cpu."""
    argv = [str(data), "--user-dir", str(PLUGIN)]
    argv += ["--arch", ARCHITECTURES[args.size][system], "--num-workers", "0"]
    argv += ["--max-tokens", str(max_tokens), "--required-batch-size-multiple", "1"]
    argv += ["--disable-validation", "--no-save"]
    argv += ["--distributed-world-size", "1"]
    argv += ["--save-dir", os.devnull]  # not a directory, so no run is recorded
    argv += FAIRSEQ_OPTIONS if system == "fairseq" else ["--tokens-per-update", "0"]
    argv += ["--cpu"] if args.cpu else []
    return argv + ([f"--{precision}"] if precision != "float32" else [])


def _print_comparison(
    args: argparse.Namespace, ours: dict[str, Any], theirs: dict[str, Any]
) -> None:
    device = "cpu" if args.cpu or not torch.cuda.is_available() else "cuda"
    print(
        f"\n{args.size}, {args.data or 'random sentences'}, {device_name(device)}; "
        f"medians of {args.runs} runs of {args.updates} updates, alternating; "
        "TFLOP/s are those of a large matrix multiplication"
    )
    for system in (ours, theirs):
        speeds = system["tokens_per_s"]
        print(
            f"{system['system']:<8} {system['precision']:<22} batches of {system['max_tokens']:>6,}"
            f"{statistics.median(speeds):>10,.0f} target tokens/s ({min(speeds):,.0f} to "
            f"{max(speeds):,.0f}){system['matmul_share']:>7.1%} of "
            f"{system['matmul_flops'] / 1e12:.3g} TFLOP/s{system['peak_bytes'] / 1e9:>7.2f} GB"
            f"{system['paper_hours']:>9,.1f} h for the paper's run"
        )
    ratios = [a / b for a, b in zip(ours["tokens_per_s"], theirs["tokens_per_s"], strict=True)]
    print(
        f"plugin / fairseq: speed {statistics.median(ratios):.2f} ({min(ratios):.2f} to "
        f"{max(ratios):.2f}), peak memory {ours['peak_bytes'] / theirs['peak_bytes']:.2f} at "
        f"{args.memory_tokens:,} tokens; padding {ours['padding']:.1%}"
    )


def random_lengths(sentences: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the lengths of random sentences on both sides, roughly those of WMT English-German."""
    generator = np.random.default_rng(1)
    mean_log = np.log(MEAN_LENGTH) - LENGTH_SIGMA**2 / 2
    source = generator.lognormal(mean_log, LENGTH_SIGMA, sentences).round()
    source = np.clip(source, 1, 250).astype(int)
    return source, np.maximum(1, source * generator.uniform(0.8, 1.2, sentences)).astype(int)


def write_random_data(folder: Path, source: np.ndarray, target: np.ndarray) -> Path:
    """Write a fairseq data directory of random sentences with these lengths, and return it."""
    generator = np.random.default_rng(1)
    dictionary = Dictionary()
    for number in range(VOCABULARY - len(dictionary)):
        dictionary.add_symbol(f"w{number}")
    for lang, lengths in (("en", source), ("de", target)):
        dictionary.save(str(folder / f"dict.{lang}.txt"))
        prefix = str(folder / f"train.en-de.{lang}")
        builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", vocab_size=VOCABULARY)
        for length in lengths:
            tokens = generator.integers(dictionary.nspecial, VOCABULARY, length + 1)
            tokens[-1] = dictionary.eos()
            builder.add_item(torch.from_numpy(tokens))
        builder.finalize(f"{prefix}.idx")
    return folder
