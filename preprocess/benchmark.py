#!/usr/bin/env python3
"""Compare the speed of aiayn wmt14 with that of sacremoses, subword-nmt and fairseq.

    python preprocess/benchmark.py --pairs 250000 1000000 --runs 3 --work DIR

generates sentence pairs with WMT-like lengths and word frequencies following Zipf's law, and runs
aiayn wmt14 on each number of pairs. On the largest, it also runs the same steps with the commands
of these packages, each with 1 or all workers, whichever is faster on a sample; --runs times, in
alternation. --plot draws time, memory and disk against the number of pairs, extrapolated to 40
million.
"""

import argparse
import contextlib
import html
import json
import os
import random
import re
import shutil
import statistics
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
from aiayn_plugin.atomic import write_file_atomically
from aiayn_plugin.corpus.console import add_workers
from aiayn_plugin.errors import InputError
from aiayn_plugin.html_page import COLOURS

LANGS = ("en", "de")
TYPES = 400_000  # distinct words per language; a text may lack the rarest
SAMPLE = 20_000  # pairs on which the commands are tried with 1 and with all workers
VOCABULARY = 37_000
LARGEST = 40_000_000  # pairs to which growth is extrapolated: WMT 2014 English-French has 36M
#: The timed steps: their message in aiayn wmt14, of which the last includes the earlier ones, and
#: the same step as commands.
STEPS = {
    "tokenise": (
        "train: tokenised",
        "for lang in en de; do sacremoses -q -l $lang -j {jobs} normalize -q -d tokenize "
        "< {text}.raw.$lang > {text}.tok.$lang; done",
    ),
    "learn": (  # with several workers it reads a single file
        "subwords: made",
        "cat {text}.tok.?? > {text}.tok.both; subword-nmt learn-bpe -i {text}.tok.both "
        "-o {text}.codes -s {merges} -t --num-workers {jobs}",
    ),
    "split": (
        "train: split into subwords",
        "for lang in en de; do subword-nmt apply-bpe -c {text}.codes --num-workers {jobs} "
        "-i {text}.tok.$lang -o {text}.bpe.$lang; done",
    ),
    "binarise": (
        "data: made",
        "fairseq-preprocess --source-lang en --target-lang de --trainpref {text}.bpe "
        "--joined-dictionary --destdir {text}.data --workers {jobs}",
    ),
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
        for split in ("valid", "test"):
            (folder / f"{split}.{lang}").write_text(head(folder / f"train.{lang}", 1000))


def head(path: Path, lines: int | None) -> str:
    """Return the first lines of a file; None: all lines."""
    with open(path) as file:
        return "".join(islice(file, lines))


def run_commands(step: str, text: Path, jobs: int, merges: int = VOCABULARY) -> float:
    """Return the seconds that the commands of a step take on the files text.*."""
    command = STEPS[step][1].format(text=text, jobs=jobs, merges=merges)
    shutil.rmtree(f"{text}.data", ignore_errors=True)  # of an earlier run; not part of any step
    began = time.monotonic()
    subprocess.run(["bash", "-ec", command], check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def choose_workers(corpus: Path, out: Path, workers: int) -> dict[str, int]:
    """Return the faster number of workers of each step, 1 or all, on a sample of the corpus.

    Learning always uses all. Both the sample and the corpus are copied to out.
    """
    out.mkdir()
    for text, lines in ("sample", SAMPLE), ("train", None):
        for lang in LANGS:
            (out / f"{text}.raw.{lang}").write_text(head(corpus / f"train.{lang}", lines))
    jobs = {}
    for step in STEPS:
        choices = [workers] if step == "learn" else sorted({1, workers})
        seconds = {n: run_commands(step, out / "sample", n, merges=2000) for n in choices}
        jobs[step] = min(choices, key=lambda n: seconds[n])
    return jobs


def plugin(corpus: Path, dest: Path, workers: int) -> dict[str, tuple[float, float]]:
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
        for line in process.stderr or ():
            print(line, end="", flush=True)
            if match := re.fullmatch(r"(.+) in ([\d.,]+) s\n", line):
                stages[match[1]] = float(match[2].replace(",", "")), peak[0]
                peak[0] = 0.0
    if process.returncode:
        sys.exit(f"aiayn wmt14 exited with status {process.returncode}")
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


def agreement(dest: Path, out: Path) -> float:
    """Return the fraction of lines that the plugin and the command tokenise alike.

    XML escapes, which the command always produces, are ignored. The command differs from Moses's
    script in letters and single quotes (see text/tokenizer.py).
    """
    same = total = 0
    for lang in LANGS:
        with open(dest / "work" / "tokenised.train" / f"text.{lang}") as ours:
            with open(out / f"train.tok.{lang}") as theirs:
                for a, b in zip(ours, theirs, strict=True):
                    same, total = same + (a == html.unescape(b)), total + 1
    return same / total


def step_seconds(stages: dict[str, tuple[float, float]]) -> dict[str, float]:
    """Return the seconds of each step in aiayn wmt14."""
    seconds = {step: stages[stage][0] for step, (stage, _) in STEPS.items()}
    last = seconds.pop("binarise")
    return seconds | {"binarise": last - sum(seconds.values())}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="benchmark.py", description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--pairs", type=int, nargs="+", default=[250_000, 1_000_000])
    runs_help = "runs of the commands, and of aiayn wmt14, on the largest text (default: 1)"
    add("--runs", type=int, default=1, help=runs_help)
    add(
        "--work",
        type=Path,
        required=True,
        metavar="DIR",
        help="scratch directory, which must not exist",
    )
    add("--output", type=Path, metavar="FILE", help="write the results to FILE as JSON")
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
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    if args.work.exists():
        parser.error(f"{args.work} already exists")
    figures: dict = {"workers": args.workers, "sizes": {}, "plugin": [], "commands": []}
    for pairs in sorted(args.pairs):
        corpus, dest = args.work / f"{pairs}.raw", args.work / f"{pairs}"
        write_corpus(corpus, pairs)
        stages = plugin(corpus, dest, args.workers)
        figures["sizes"][pairs] = {
            "seconds": step_seconds(stages),
            "gigabytes": {step: stages[stage][1] for step, (stage, _) in STEPS.items()},
            "disk": sum(path.stat().st_size for path in dest.rglob("*") if path.is_file()),
            "raw": sum((corpus / f"train.{lang}").stat().st_size for lang in LANGS),
        }
    if args.plot:
        plots.save(draw_growth(figures["sizes"]), args.plot)
    if args.runs:
        compare(args, figures, pairs)
    if args.output:
        with write_file_atomically(args.output) as temporary:
            temporary.write_text(json.dumps(figures, indent=2) + "\n")
    shutil.rmtree(args.work)


def compare(args: argparse.Namespace, figures: dict, pairs: int) -> None:
    """Run the commands on the largest text, and print the medians of commands and plugin."""
    corpus, dest, out = args.work / f"{pairs}.raw", args.work / f"{pairs}", args.work / "commands"
    figures["jobs"] = choose_workers(corpus, out, args.workers)
    for number in range(args.runs):
        if number:
            shutil.rmtree(dest)
            seconds = step_seconds(plugin(corpus, dest, args.workers))
        else:
            seconds = figures["sizes"][pairs]["seconds"]
        figures["plugin"].append(seconds)
        commands = {
            step: run_commands(step, out / "train", figures["jobs"][step]) for step in STEPS
        }
        figures["commands"].append(commands)
        print(json.dumps({side: figures[side][-1] for side in ("plugin", "commands")}), flush=True)
    figures["same_tokens"] = agreement(dest, out)
    report(figures, pairs)


def draw_growth(sizes: dict[int, dict]) -> Any:
    """Return a figure of time, memory and disk against the number of pairs.

    Beyond the largest measured number, a dashed line continues the last two.
    """
    chart = plots.new_figure(8.5, 3.6)
    time_axes, size_axes = chart.subplots(1, 2)
    minutes = {step: [size["seconds"][step] / 60 for size in sizes.values()] for step in STEPS} | {
        "all steps": [sum(size["seconds"].values()) / 60 for size in sizes.values()]
    }
    gigabytes = {
        "memory of the largest process": [max(x["gigabytes"].values()) for x in sizes.values()],
        "disk, text included": [(x["disk"] + x["raw"]) / 1e9 for x in sizes.values()],
    }
    pairs = list(sizes)
    for axes, curves in ((time_axes, minutes), (size_axes, gigabytes)):
        for number, (name, values) in enumerate(curves.items()):
            colour = COLOURS[number]
            axes.plot(pairs, values, marker="o", markersize=4, color=colour, label=name)
            slope = (values[-1] - values[-2]) / (pairs[-1] - pairs[-2])
            further = np.geomspace(pairs[-1], max(LARGEST, pairs[-1]), 20)
            beyond = values[-1] + slope * (further - pairs[-1])
            axes.plot(further, beyond, linestyle="--", color=colour)
        axes.set(xscale="log", yscale="log", xlabel="sentence pairs")
        axes.xaxis.set_major_formatter(lambda x, _: f"{x / 1e6:g}M")
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.grid(alpha=0.25)
        axes.legend(fontsize=8)
    time_axes.set(ylabel="minutes")
    size_axes.set(ylabel="GB")
    return chart


def report(figures: dict, pairs: int) -> None:
    """Print a table of the medians of the runs."""
    ours, theirs = (
        {step: statistics.median(run[step] for run in figures[side]) for step in STEPS}
        for side in ("plugin", "commands")
    )
    rows = [(f"{step} (-j {figures['jobs'][step]})", ours[step], theirs[step]) for step in STEPS]
    rows.append(("total", sum(ours.values()), sum(theirs.values())))
    runs = len(figures["plugin"])
    print(f"{pairs:,} pairs, {figures['workers']} workers, medians of {runs} runs; pairs/s")
    print(f"{'':28} {'plugin':>9} {'commands':>9}  ratio")
    for name, own, other in rows:
        print(f"{name:28} {pairs / own:9,.0f} {pairs / other:9,.0f} {other / own:6.2f}")
    for number, size in figures["sizes"].items():
        memory = ", ".join(f"{step} {size['gigabytes'][step]:.2f}" for step in STEPS)
        print(
            f"{number:,} pairs: GB of the largest process: {memory}; "
            f"{size['disk'] / 1e9:.2f} GB on disk for {size['raw'] / 1e9:.2f} GB of text"
        )
    print(f"lines with the same tokens as the commands: {figures['same_tokens']:.2%}")


if __name__ == "__main__":
    main()
