#!/usr/bin/env python3
"""Measure the time, memory and disk that aiayn wmt14 takes.

    python preprocess/benchmark.py --pairs 62500 250000 1000000 --work DIR --plot FILE

generates sentence pairs with WMT-like lengths and word frequencies following Zipf's law, and runs
aiayn wmt14 on each number of pairs. --plot draws time, memory and disk against the number of pairs,
extrapolated to 40 million.
"""

import argparse
import contextlib
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from aiayn_plugin import plots
from aiayn_plugin.cli.preparation import add_workers
from aiayn_plugin.errors import InputError
from aiayn_plugin.html_page import COLOURS

LANGS = ("en", "de")
TYPES = 400_000  # distinct words per language; a text may lack the rarest
VOCABULARY = 37_000
MAX_PAIRS = 40_000_000  # pairs to which growth is extrapolated: WMT 2014 English-French has 36M
#: The timed steps, and the log line that ends each; the last time includes all steps.
STEPS = {
    "tokenise": "train: tokenised",
    "learn": "subwords: made",
    "split": "train: split into subwords",
    "binarise": "data: made",
}
ENDS = ["."] * 80 + ["?", "!", ":", '."', " –"] * 4


def words(lang: str) -> np.ndarray:
    """Return invented words, the most frequent and shortest first.

    Some contain a hyphen, an apostrophe or digits.
    """
    rng = random.Random(lang)
    vowels = "aeiouyäöü" if lang == "de" else "aeiouy"
    syllables = [c + v for c in "bdfghklmnprstvwz" for v in vowels]
    vocabulary: dict[str, None] = {}
    while len(vocabulary) < TYPES:
        word = "".join(rng.choices(syllables, k=1 + (len(vocabulary) > 60) + rng.randint(0, 3)))
        word += rng.choice(["", "", "n", "s", "t"])
        kind = rng.random()
        if kind < 0.03:
            word = f"{word}-{rng.choice(syllables)}{rng.choice(syllables)}"
        elif kind < 0.04:
            word += "'s"
        elif kind < 0.07:
            word = str(rng.randint(1, 9999))
            word += f",{rng.randint(100, 999)}" if kind < 0.05 else ""
        elif kind < 0.3:
            word = word.capitalize()
        vocabulary[word] = None
    return np.array(list(vocabulary), dtype=object)


def write_corpus(folder: Path, pairs: int) -> None:
    """Write training, validation and test pairs; both sides of a pair have similar lengths."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(np.log(25) - 0.18, 0.6, pairs), 1, 240)
    chances = 1 / (np.arange(TYPES) + 2.7) ** 1.05
    chances = np.cumsum(chances) / chances.sum()
    for lang in LANGS:
        vocabulary = words(lang)
        used = np.zeros(TYPES, dtype=bool)
        sizes = np.clip(lengths * rng.normal(1, 0.12, pairs), 1, 240).astype(int)
        with open(folder / f"train.{lang}", "w", encoding="utf-8") as file:
            for start in range(0, pairs, 10_000):
                block = sizes[start : start + 10_000]
                drawn = np.searchsorted(chances, rng.random(block.sum()))
                used[drawn] = True
                tokens = vocabulary[drawn]
                tokens[rng.random(len(tokens)) < 0.06] += ","
                ends = rng.choice(len(ENDS), len(block))
                quoted = rng.random(len(tokens)) < 0.006
                tokens[quoted] = [f'("{token}")' for token in tokens[quoted]]
                for line, end in zip(np.split(tokens, np.cumsum(block)[:-1]), ends, strict=True):
                    text = " ".join(line)
                    file.write(f"{text[0].upper()}{text[1:].rstrip(',')}{ENDS[end]}\n")
        print(f"{pairs:,} pairs, {lang}: {sizes.sum():,} words of {used.sum():,} types", flush=True)
        with open(folder / f"train.{lang}", encoding="utf-8") as file:
            first = "".join(islice(file, 1000))
        for split in ("valid", "test"):
            (folder / f"{split}.{lang}").write_text(first, encoding="utf-8")


def time_wmt14(corpus: Path, dest: Path, workers: int) -> dict[str, tuple[float, float]]:
    """Run aiayn wmt14. Return the seconds of each stage and the peak GB of its largest process."""
    splits = {
        split: [{"name": split, **{lang: str(corpus / f"{split}.{lang}") for lang in LANGS}}]
        for split in ("train", "valid", "test")
    }
    pair = {"subword": "bpe", "vocabulary": VOCABULARY, **splits}
    table = corpus / "table.yaml"
    table.write_text(yaml.safe_dump({"archives": {}, "pairs": {"-".join(LANGS): pair}}))
    command = [sys.executable, "-m", "aiayn_plugin.cli", "wmt14", "-".join(LANGS)]
    command += ["--dest", str(dest), "--table", str(table), "--workers", str(workers)]
    stages: dict[str, tuple[float, float]] = {}
    peak = [0.0]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        threading.Thread(target=watch, args=(process, peak), daemon=True).start()
        line = ""
        try:
            for line in process.stderr or ():
                if match := re.fullmatch(r"(.+) in ([\d.,]+) s\n", line):
                    print(line, end="", flush=True)
                    stages[match[1]] = float(match[2].replace(",", "")), peak[0]
                    peak[0] = 0.0
        except KeyboardInterrupt:
            process.terminate()
            raise
    if process.returncode:
        sys.exit(f"aiayn wmt14 exited with status {process.returncode}: {line}")
    return stages


def watch(process: subprocess.Popen, peak: list[float]) -> None:
    """Update peak[0], the GB of the largest process of a session, four times a second."""
    while process.poll() is None:
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # the process has ended
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[3]) == process.pid:
                    pages = int(fields[21])
                    peak[0] = max(peak[0], pages * os.sysconf("SC_PAGESIZE") / 1e9)
        time.sleep(0.25)


def step_seconds(stages: dict[str, tuple[float, float]]) -> dict[str, float]:
    """Return the seconds of each step in aiayn wmt14."""
    seconds = {step: stages[stage][0] for step, stage in STEPS.items()}
    last = seconds.pop("binarise")
    return seconds | {"binarise": last - sum(seconds.values())}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="benchmark.py", description=__doc__.partition("\n")[0])
    add = parser.add_argument
    pairs_help = "numbers of sentence pairs to time (default: %(default)s)"
    add("--pairs", type=int, nargs="+", default=[250_000, 1_000_000], help=pairs_help)
    add(
        "--work",
        type=Path,
        required=True,
        metavar="DIR",
        help="scratch directory, which must not exist",
    )
    plot_help = "draw growth: .svg, .pdf or .png; needs matplotlib"
    add("--plot", type=Path, metavar="FILE", help=plot_help)
    add_workers(parser)
    args = parser.parse_args()
    if args.plot:
        try:
            plots.check(args.plot)
        except InputError as error:
            parser.error(str(error))
        if len(set(args.pairs)) < 2:
            parser.error("--plot needs two or more values of --pairs")
    if args.work.exists():
        parser.error(f"{args.work} already exists")
    sizes: dict[int, dict] = {}
    for pairs in sorted(args.pairs):
        corpus, dest = args.work / f"{pairs}.raw", args.work / f"{pairs}"
        write_corpus(corpus, pairs)
        stages = time_wmt14(corpus, dest, args.workers)
        sizes[pairs] = {
            "seconds": step_seconds(stages),
            "gigabytes": {step: stages[stage][1] for step, stage in STEPS.items()},
            "disk": sum(path.stat().st_size for path in dest.rglob("*") if path.is_file()),
            "raw": sum((corpus / f"train.{lang}").stat().st_size for lang in LANGS),
        }
        report(pairs, sizes[pairs])
    if args.plot:
        plots.save(draw_growth(sizes), args.plot)
    shutil.rmtree(args.work)


def report(pairs: int, size: dict) -> None:
    """Print the seconds and the memory of each step for a number of pairs, and the disk."""
    print(f"{pairs:,} pairs: {sum(size['seconds'].values()):,.0f} s")
    for step in STEPS:
        print(f"  {step:10} {size['seconds'][step]:7,.0f} s {size['gigabytes'][step]:6.2f} GB")
    disk, raw = size["disk"] / 1e9, size["raw"] / 1e9
    print(f"  {disk:.2f} GB on disk for {raw:.2f} GB of text", flush=True)


def draw_growth(sizes: dict[int, dict]) -> Any:
    """Return a figure of time, memory and disk against the number of pairs.

    Beyond the largest measured number, a dashed line continues the last two.
    """
    chart = plots.new_figure(8.5, 3.6)
    time_axes, size_axes = chart.subplots(1, 2)
    pairs = np.array(list(sizes))
    further = np.geomspace(pairs[-1], max(MAX_PAIRS, pairs[-1]), 20)

    def extrapolate(values: list[float]) -> np.ndarray:
        # Learning takes about as long for any text, but timings vary: never extrapolate a fall.
        slope = max(values[-1] - values[-2], 0) / (pairs[-1] - pairs[-2])
        return np.concatenate((values, values[-1] + slope * (further - pairs[-1])))

    minutes = {
        step: extrapolate([size["seconds"][step] / 60 for size in sizes.values()]) for step in STEPS
    }
    minutes["all steps"] = np.sum(list(minutes.values()), axis=0)
    largest = [max(size["gigabytes"].values()) for size in sizes.values()]
    disk = [(size["disk"] + size["raw"]) / 1e9 for size in sizes.values()]
    gigabytes = {
        "memory of the largest process": extrapolate(largest),
        "disk, text included": extrapolate(disk),
    }
    for axes, curves in ((time_axes, minutes), (size_axes, gigabytes)):
        for number, (name, values) in enumerate(curves.items()):
            colour = COLOURS[number]
            measured, beyond = np.split(values, [len(pairs)])
            axes.plot(pairs, measured, marker="o", markersize=4, color=colour, label=name)
            axes.plot(further, beyond, linestyle="--", color=colour)
        axes.set(xscale="log", yscale="log", xlabel="sentence pairs")
        axes.xaxis.set_major_formatter(lambda x, _: f"{x / 1e6:g}M")
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.grid(alpha=0.25)
        axes.legend(fontsize=8)
    time_axes.set(ylabel="minutes")
    size_axes.set(ylabel="GB")
    return chart


if __name__ == "__main__":
    main()
