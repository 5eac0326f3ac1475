"""`aiayn benchmark translate`: the plugin's search beside fairseq's and CTranslate2's."""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from sacrebleu.metrics import BLEU

from ..checkpoints.export import QUANTIZATIONS
from ..errors import InputError
from ..paper import SearchSettings
from ..text.lines import read_lines
from ..text.pipeline import TextPipeline
from ..text.settings import SETTINGS_FILE
from . import latency
from .engine import engines
from .measure import reason, write_json

SPEED = re.compile(r"Translated ([\d,]+) sentences \(([\d,]+) tokens\) in ([\d.]+)s")
#: The options of fairseq's side, and of the two searches of the plugin's.
STOCK = ["--task", "translation", "--required-batch-size-multiple", "1"]
SEARCHES = {"plugin": ["--length-penalty", "fairseq"], "plugin, the paper's search": []}

HELP = "fairseq-generate with the plugin's search against fairseq's own"
DESCRIPTION = (
    "Translate a set with fairseq's model and its converted twin (aiayn convert), "
    "alternating, each at its best batch size; and compare the hypotheses, and their sacreBLEU "
    "where preprocess/prepare.py made the data."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn benchmark translate`."""
    parser.add_argument("data", type=Path, metavar="DATA", help="a fairseq data directory")
    parser.add_argument(
        "--stock", type=Path, required=True, metavar="FILE", help="a checkpoint of fairseq's model"
    )
    parser.add_argument(
        "--converted", type=Path, required=True, metavar="FILE", help="the same, converted"
    )
    parser.add_argument("--gen-subset", default="valid")
    parser.add_argument("--beam", type=int, default=SearchSettings.beam)
    parser.add_argument("--lenpen", type=float, default=SearchSettings.lenpen)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[32, 64, 128], metavar="N")
    parser.add_argument("--runs", type=int, default=3, help="medians of so many (default: 3)")
    parser.add_argument(
        "--length",
        type=int,
        metavar="N",
        help="each hypothesis has N tokens, whatever the model says: for a model "
        "that is not trained",
    )
    parser.add_argument(
        "--one-by-one",
        type=int,
        default=0,
        metavar="N",
        help="instead of batches, the first N sentences one at a time: the time to each answer",
    )
    parser.add_argument(
        "--precisions",
        nargs="+",
        choices=("float32", "fp16", "bf16", "int8"),
        default=["float32"],
        help="of the plugin's side (default: float32)",
    )
    parser.add_argument(
        "--stock-precision",
        choices=("float32", "fp16"),
        default="float32",
        help="of fairseq's side (default: %(default)s)",
    )
    parser.add_argument(
        "--ctranslate2",
        nargs="+",
        choices=QUANTIZATIONS,
        default=[],
        metavar="PRECISION",
        help="CTranslate2 on the CPU too, in these precisions",
    )
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--output", type=Path, metavar="FILE.json")


#: Maps a batch size to the seconds of a search, and to the hypothesis of each sentence number.
Way = Callable[[int], tuple[float, dict[str, str]]]


def run(args: argparse.Namespace) -> None:
    """Measure and print. Raises InputError if a command fails."""
    if args.runs < 1 or args.one_by_one < 0 or min(args.batch_sizes) < 1:
        raise InputError("--runs, --one-by-one and --batch-sizes must be at least 1")
    with tempfile.TemporaryDirectory() as directory:
        of_ctranslate2 = engines(args, directory) if args.ctranslate2 else {}
        if args.one_by_one:
            return latency.measure(args, commands(args), of_ctranslate2)
        ways: dict[str, Way] = {
            way: partial(_generate, args, words) for way, words in commands(args).items()
        }
        measure(args, ways | {way: e.all_in_batches for way, e in of_ctranslate2.items()})


def measure(args: argparse.Namespace, ways: dict[str, Way]) -> None:
    """Run each way at its best batch size, alternating, and print and write the results."""
    best: dict[str, int] = {}
    for way, translate in ways.items():
        tried = {}
        for size in args.batch_sizes if len(args.batch_sizes) > 1 else []:
            tried[size], _ = translate(size)
            print(f"{way:<35} batch {size:>4}  {tried[size]:8.2f} s", flush=True)
        best[way] = min(tried, key=lambda size: tried[size], default=args.batch_sizes[0])
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    hypotheses: dict[str, dict[str, str]] = {}
    for number in range(args.runs):
        for way, translate in ways.items():
            taken, hypotheses[way] = translate(best[way])
            seconds[way].append(taken)
            print(f"{way:<35} run   {number + 1:>4}  {taken:8.2f} s", flush=True)
    reference, theirs = statistics.median(seconds["fairseq"]), hypotheses["fairseq"]
    print(
        f"\nmedians of {args.runs} runs, alternating; {len(theirs):,} sentences of "
        f"{args.gen_subset}, beam {args.beam}"
    )
    rows = []
    for way in ways:
        median, bleu = statistics.median(seconds[way]), _bleu(args, hypotheses[way])
        same = sum(hypotheses[way].get(n) == text for n, text in theirs.items())
        rows.append(
            {
                "way": way,
                "batch_size": best[way],
                "seconds": seconds[way],
                "ratio": reference / median,
                "same": same,
                "sentences": len(theirs),
                "sacrebleu": bleu,
            }
        )
        print(
            f"{way:<35} batch {best[way]:>4}  {len(theirs) / median:8.2f} sentences/s  "
            f"{reference / median:5.2f} ×  {same:,} hypotheses as fairseq's"
            + (f"  sacreBLEU {bleu:.2f}" if bleu is not None else "")
        )
    if args.output:
        write_json(rows, args.output)


def _bleu(args: argparse.Namespace, hypotheses: dict[str, str]) -> float | None:
    """Return sacreBLEU of the raw text, or None if no raw references are beside the data."""
    if not (args.data / SETTINGS_FILE).is_file():
        return None
    pipeline = TextPipeline.load(args.data)
    raw = args.data / f"{args.gen_subset}.raw.{pipeline.settings.target_lang}"
    text = [pipeline.decode(hypotheses[str(number)]) for number in range(len(hypotheses))]
    return BLEU().corpus_score(text, [list(read_lines(raw))]).score


def commands(args: argparse.Namespace) -> dict[str, list[str]]:
    """Return the arguments of fairseq-generate for fairseq's side and each of the plugin's."""
    found = {"fairseq": _command(args, args.stock, args.stock_precision, STOCK)}
    for precision in args.precisions:
        for search, words in SEARCHES.items():
            found[f"{search}, {precision}"] = _command(args, args.converted, precision, words)
    return found


def _command(
    args: argparse.Namespace, model: Path, precision: str, words: Sequence[str]
) -> list[str]:
    forced = ["--min-len", args.length, "--max-len-a", 0, "--max-len-b", args.length]
    return list(
        map(
            str,
            [
                args.data,
                "--user-dir",
                Path(__file__).resolve().parent.parent,
                "--path",
                model,
                "--gen-subset",
                args.gen_subset,
                "--beam",
                args.beam,
                "--lenpen",
                args.lenpen,
                *words,
                *(["--cpu"] if args.cpu else []),
                *([f"--{precision}"] if precision != "float32" else []),
                *(forced if args.length else []),
            ],
        )
    )


def _generate(
    args: argparse.Namespace, words: Sequence[str], size: int
) -> tuple[float, dict[str, str]]:
    """Run fairseq-generate; the seconds are those of search that it reports."""
    line = [sys.executable, "-m", "fairseq_cli.generate", *words, "--batch-size", str(size)]
    done = subprocess.run(line, capture_output=True, text=True)
    match = SPEED.search(done.stdout + done.stderr)
    if done.returncode or not match:
        raise InputError(f"{' '.join(line)} failed: {reason(done.stderr)}")
    if not float(match[3]):  # fairseq reports tenths
        raise InputError(
            f"{args.gen_subset} takes less than 0.05 s: give a --gen-subset of more sentences"
        )
    hypotheses = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", done.stdout, re.MULTILINE))
    return float(match[3]), hypotheses
