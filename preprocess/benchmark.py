#!/usr/bin/env python3
"""Time preprocess/wmt14.py beside the commands of sacremoses and subword-nmt, on made-up text.

    python preprocess/benchmark.py --pairs 250000 1000000 --work DIR

makes sentence pairs of the length of WMT, with word frequencies like Zipf's. It runs wmt14.py on
each number of pairs. On the largest it runs the same steps by the commands too, each with 1 worker
or with all workers, whichever is faster on a sample. Both sides apply the merges that wmt14.py
learnt.
"""

import argparse
import contextlib
import functools
import html
import json
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

import numpy as np
import yaml
from corpus.console import add_workers

LANGS = ("en", "de")
TYPES = 400_000  # different words of each language; a text may lack the rarest
SAMPLE = 20_000  # pairs on which the numbers of workers of the commands are tried
VOCABULARY = 37_000
#: The steps that are timed, with their stage of wmt14.py. The last stage includes all others.
STAGES = {"tokenise": "tokenised.train", "learn": "subwords", "split": "split.train",
          "binary files": "data"}  # fmt: skip
ENDS = ["."] * 80 + ["?", "!", ":", '."', " –"] * 4


# ---- Made-up text


def words(lang: str) -> np.ndarray:
    """Return different words, the most frequent first.

    These are short. Some words have a hyphen, an apostrophe or digits.
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
    """Write so many sentence pairs. Both lines of a pair have about the same length."""
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


def head(path: Path, lines: int) -> str:
    """Return the first lines of a file."""
    with open(path) as file:
        return "".join(islice(file, lines))


# ---- Both sides


def timed(command: list[str] | str) -> float:
    """Return the seconds that a command took. Raises CalledProcessError if it fails."""
    began = time.monotonic()
    subprocess.run(command, shell=isinstance(command, str), check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def plugin(corpus: Path, dest: Path, workers: int) -> dict[str, tuple[float, float]]:
    """Run wmt14.py. Return the seconds of each stage and the GB of its largest process."""
    splits = {split: [{"name": split, **{lang: str(corpus / f"{split}.{lang}") for lang in LANGS}}]
              for split in ("train", "valid", "test")}  # fmt: skip
    pair = {"subword": "bpe", "vocabulary": VOCABULARY, **splits}
    table = corpus / "table.yaml"
    table.write_text(yaml.safe_dump({"archives": {}, "pairs": {"-".join(LANGS): pair}}))
    command = [sys.executable, str(Path(__file__).with_name("wmt14.py")), "-".join(LANGS)]
    command += ["--dest", str(dest), "--table", str(table), "--workers", str(workers)]
    stages: dict[str, tuple[float, float]] = {}
    peak = [0.0]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        threading.Thread(target=watch, args=(process, peak), daemon=True).start()
        for line in process.stderr or ():
            print(line, end="", flush=True)
            if match := re.fullmatch(r"(\S+): made in ([\d.,]+) s\n", line):
                stages[match[1]] = float(match[2].replace(",", "")), peak[0]
                peak[0] = 0.0
    if process.returncode:
        sys.exit(f"wmt14.py ended with status {process.returncode}")
    return stages


def watch(process: subprocess.Popen, peak: list[float]) -> None:
    """Keep the GB of the largest process of a session in peak[0]. Look four times a second."""
    while process.poll() is None:
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # the process has ended
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[3]) == process.pid:
                    pages = int(fields[21])
                    peak[0] = max(peak[0], pages * os.sysconf("SC_PAGESIZE") / 1e9)
        time.sleep(0.25)


def commands(corpus: Path, codes: Path, out: Path, workers: int) -> dict[str, tuple[float, int]]:
    """Run the same steps by the commands. Return the seconds and the workers of each step."""
    out.mkdir()
    for lang in LANGS:
        (out / f"sample.{lang}").write_text(head(corpus / f"train.{lang}", SAMPLE))

    def tokenise(text: Path, to: str, jobs: int) -> float:
        return sum(
            timed(f"sacremoses -q -l {lang} -j {jobs} normalize -q -d tokenize "
                  f"< {text}.{lang} > {out}/{to}.tok.{lang}") for lang in LANGS
        )  # fmt: skip

    def split(text: str, jobs: int) -> float:
        return sum(
            timed(["subword-nmt", "apply-bpe", "-c", str(codes), "--num-workers", str(jobs),
                   "-i", f"{out}/{text}.tok.{lang}", "-o", f"{out}/{text}.bpe.{lang}"])
            for lang in LANGS
        )  # fmt: skip

    choices = sorted({1, workers})
    jobs = min(choices, key=functools.partial(tokenise, out / "sample", "sample"))
    steps = {"tokenise": (tokenise(corpus / "train", "train", jobs), jobs)}
    jobs = min(choices, key=functools.partial(split, "sample"))
    steps["split"] = split("train", jobs), jobs
    return steps


def agreement(dest: Path, out: Path) -> float:
    """Return the fraction of lines that have the same tokens on both sides.

    XML escapes, which the command always makes, do not count. The command is not Moses's script: it
    has other letters and single quotes (see `_Moses` and `_normalizer` of the tokeniser).
    """
    same = total = 0
    for lang in LANGS:
        with open(dest / "work" / "tokenised.train" / f"text.{lang}") as ours:
            with open(out / f"train.tok.{lang}") as theirs:
                for a, b in zip(ours, theirs, strict=True):
                    same, total = same + (a == html.unescape(b)), total + 1
    return same / total


def main() -> None:
    """Run the benchmark as the command line says."""
    parser = argparse.ArgumentParser(prog="benchmark.py", description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--pairs", type=int, nargs="+", default=[250_000, 1_000_000])
    add("--work", type=Path, required=True, metavar="DIR", help="scratch directory; must not exist")
    add("--output", type=Path, metavar="FILE", help="write the figures there, as JSON")
    add_workers(parser)
    args = parser.parse_args()
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    if args.work.exists():
        parser.error(f"{args.work} exists already")
    figures: dict = {"workers": args.workers, "runs": {}}
    for pairs in sorted(args.pairs):
        corpus, dest = args.work / f"{pairs}.raw", args.work / f"{pairs}"
        write_corpus(corpus, pairs)
        stages = plugin(corpus, dest, args.workers)
        figures["runs"][pairs] = {
            "seconds": {name: seconds for name, (seconds, _) in stages.items()},
            "gigabytes": {name: gigabytes for name, (_, gigabytes) in stages.items()},
            "disk": sum(path.stat().st_size for path in dest.rglob("*") if path.is_file()),
            "raw": sum((corpus / f"train.{lang}").stat().st_size for lang in LANGS),
        }
    steps = commands(corpus, dest / "data" / "codes.bpe", args.work / "commands", args.workers)
    figures["commands"] = steps
    figures["same_tokens"] = agreement(dest, args.work / "commands")
    report(figures, pairs)
    if args.output:
        args.output.write_text(json.dumps(figures, indent=2) + "\n")
    shutil.rmtree(args.work)


def report(figures: dict, pairs: int) -> None:
    """Print the figures as a table."""
    seconds = figures["runs"][pairs]["seconds"]
    ours = {name: seconds[stage] for name, stage in STAGES.items()}
    rest = ours.pop("binary files") - sum(ours.values())
    (tokenise, jobs), (split, more_jobs) = (figures["commands"][x] for x in ("tokenise", "split"))
    rows = [(f"normalise, tokenise (-j {jobs})", ours["tokenise"], tokenise),
            (f"apply BPE (-j {more_jobs})", ours["split"], split),
            ("together", ours["tokenise"] + ours["split"], tokenise + split)]  # fmt: skip
    print(f"{pairs:,} pairs, {figures['workers']} workers; pairs/s")
    print(f"{'':28} {'plugin':>9} {'commands':>9}  ratio")
    for name, own, other in rows:
        print(f"{name:28} {pairs / own:9,.0f} {pairs / other:9,.0f} {other / own:6.2f}")
    print(f"learning {VOCABULARY:,} pieces, by subword-nmt on both sides: {ours['learn']:,.0f} s")
    print(f"binary files and the rest: {rest:,.0f} s")
    for number, run in figures["runs"].items():
        memory = ", ".join(f"{x} {run['gigabytes'][stage]:.2f}" for x, stage in STAGES.items())
        print(f"{number:,} pairs: GB of the largest process: {memory}; "
              f"{run['disk'] / 1e9:.2f} GB on disk for {run['raw'] / 1e9:.2f} GB of text")
    print(f"the same tokens as the commands: {figures['same_tokens']:.2%} of the lines")


if __name__ == "__main__":
    main()
