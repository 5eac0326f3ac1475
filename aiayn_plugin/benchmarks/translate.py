"""`aiayn benchmark translate`: the plugin's search compared with fairseq's and CTranslate2's."""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from sacrebleu.metrics import BLEU

from ..checkpoints.export import QUANTIZATIONS
from ..errors import InputError
from ..paper import SearchSettings
from ..text.lines import read_lines
from ..text.pipeline import TextPipeline
from ..text.settings import SETTINGS_FILE
from .engine import build_engines
from .latency import measure_latency
from .measure import failure_reason, write_json

SPEED = re.compile(r"Translated ([\d,]+) sentences \(([\d,]+) tokens\) in ([\d.]+)s")
FAIRSEQ_OPTIONS = ["--task", "translation", "--required-batch-size-multiple", "1"]
#: The options of the plugin's two searches.
PLUGIN_SEARCHES = {"plugin": ["--length-penalty", "fairseq"], "plugin, the paper's search": []}

HELP = "compare the search with fairseq's and CTranslate2's"
DESCRIPTION = (
    "Translate a split with fairseq's model and with the same model converted by aiayn convert, "
    "alternating, each at its best batch size. Also compare the hypotheses, and their sacreBLEU "
    "if preprocess/prepare.py made the data."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn benchmark translate`."""
    add = parser.add_argument
    add("data", type=Path, metavar="DATA", help="fairseq data directory")
    add("--stock", type=Path, required=True, metavar="FILE", help="checkpoint of fairseq's model")
    add("--converted", type=Path, required=True, metavar="FILE", help="the same model, converted")
    add("--gen-subset", default="valid", help="split to translate (default: %(default)s)")
    add("--beam", type=int, default=SearchSettings.beam, help="beam size (default: %(default)s)")
    add(
        "--lenpen",
        type=float,
        default=SearchSettings.lenpen,
        help="exponent of the length penalty (default: %(default)s)",
    )
    add(
        "--batch-sizes",
        type=int,
        nargs="+",
        default=[32, 64, 128],
        metavar="N",
        help="sentences per batch; each system uses its fastest (default: 32 64 128)",
    )
    add("--runs", type=int, default=3, help="runs, of which the median counts (default: 3)")
    add(
        "--length",
        type=int,
        metavar="N",
        help="tokens of each hypothesis, for an untrained model (default: the model decides)",
    )
    add(
        "--one-by-one",
        type=int,
        default=0,
        metavar="N",
        help="measure the latency of the first N sentences instead of batches",
    )
    add(
        "--precisions",
        nargs="+",
        choices=("float32", "fp16", "bf16", "int8"),
        default=["float32"],
        help="precisions of the plugin (default: float32)",
    )
    add(
        "--stock-precision",
        choices=("float32", "fp16"),
        default="float32",
        help="precision of fairseq (default: %(default)s)",
    )
    add(
        "--ctranslate2",
        nargs="+",
        choices=QUANTIZATIONS,
        default=[],
        metavar="PRECISION",
        help="precisions of CTranslate2 on the CPU (default: without CTranslate2)",
    )
    add("--cpu", action="store_true", help="the CPU, even if there is a GPU")
    add("--output", type=Path, metavar="FILE.json", help="results as JSON")


#: Maps a batch size to the seconds of a search and the hypothesis of each sentence number.
System = Callable[[int], tuple[float, dict[str, str]]]


def run(args: argparse.Namespace) -> None:
    """Measure all systems and print a comparison. Raises InputError if a command fails."""
    if args.runs < 1 or args.one_by_one < 0 or min(args.batch_sizes) < 1:
        raise InputError("--runs and --batch-sizes must be at least 1, --one-by-one at least 0")
    commands = {"fairseq": _generation_options(args, args.stock, args.stock_precision)}
    for precision in args.precisions:
        for search, options in PLUGIN_SEARCHES.items():
            argv = _generation_options(args, args.converted, precision, options)
            commands[f"{search}, {precision}"] = argv
    with tempfile.TemporaryDirectory() as directory:
        engines = build_engines(args, directory) if args.ctranslate2 else {}
        if args.one_by_one:
            measure_latency(args, commands, engines)
            return
        systems: dict[str, System] = {
            name: partial(_generate, args, argv) for name, argv in commands.items()
        }
        systems |= {name: engine.translate for name, engine in engines.items()}
        rows = _measure(args, systems)
    if args.output:
        write_json(rows, args.output)


def _measure(args: argparse.Namespace, systems: dict[str, System]) -> list[dict[str, Any]]:
    """Run each system at its best batch size, alternating; print and return the results."""
    sizes = {name: _find_batch_size(args, name, system) for name, system in systems.items()}
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    hypotheses: dict[str, dict[str, str]] = {}
    for number in range(1, args.runs + 1):
        for name, translate in systems.items():
            duration, hypotheses[name] = translate(sizes[name])
            seconds[name].append(duration)
            print(f"{name:<35} run   {number:>4}  {duration:8.2f} s", flush=True)
    fairseq_median, theirs = statistics.median(seconds["fairseq"]), hypotheses["fairseq"]
    print(
        f"\nmedians of {args.runs} runs, alternating; {len(theirs):,} sentences of "
        f"{args.gen_subset}, beam {args.beam}"
    )
    rows = []
    for name in systems:
        median, bleu = statistics.median(seconds[name]), _bleu(args, hypotheses[name])
        same = sum(hypotheses[name].get(number) == text for number, text in theirs.items())
        rows.append(
            {
                "system": name,
                "batch_size": sizes[name],
                "seconds": seconds[name],
                "ratio": fairseq_median / median,
                "same": same,
                "sentences": len(theirs),
                "sacrebleu": bleu,
            }
        )
        print(
            f"{name:<35} batch {sizes[name]:>4}  {len(theirs) / median:8.2f} sentences/s  "
            f"{fairseq_median / median:5.2f} ×  {same:,} hypotheses identical to fairseq's"
            + (f"  sacreBLEU {bleu:.2f}" if bleu is not None else "")
        )
    return rows


def _find_batch_size(args: argparse.Namespace, name: str, translate: System) -> int:
    """Return the fastest of several batch sizes."""
    if len(args.batch_sizes) == 1:
        return args.batch_sizes[0]
    seconds = {}
    for size in args.batch_sizes:
        seconds[size], _ = translate(size)
        print(f"{name:<35} batch {size:>4}  {seconds[size]:8.2f} s", flush=True)
    return min(seconds, key=seconds.__getitem__)


def _bleu(args: argparse.Namespace, hypotheses: dict[str, str]) -> float | None:
    """Return sacreBLEU of the raw text, or None if the data has no raw references."""
    if not (args.data / SETTINGS_FILE).is_file():
        return None
    pipeline = TextPipeline.load(args.data)
    references = args.data / f"{args.gen_subset}.raw.{pipeline.settings.target_lang}"
    text = [pipeline.decode(hypotheses[str(number)]) for number in range(len(hypotheses))]
    return BLEU().corpus_score(text, [list(read_lines(references))]).score


def _generation_options(
    args: argparse.Namespace,
    model: Path,
    precision: str,
    search: list[str] = FAIRSEQ_OPTIONS,
) -> list[str]:
    """Return the arguments of fairseq-generate."""
    argv = [args.data, "--user-dir", Path(__file__).resolve().parent.parent, "--path", model]
    argv += ["--gen-subset", args.gen_subset, "--beam", args.beam, "--lenpen", args.lenpen, *search]
    argv += ["--cpu"] if args.cpu else []
    argv += [f"--{precision}"] if precision != "float32" else []
    if args.length:
        argv += ["--min-len", args.length, "--max-len-a", 0, "--max-len-b", args.length]
    return list(map(str, argv))


def _generate(
    args: argparse.Namespace, argv: list[str], batch_size: int
) -> tuple[float, dict[str, str]]:
    """Run fairseq-generate; the seconds are those of the search, as it reports them."""
    command = [sys.executable, "-m", "fairseq_cli.generate", *argv, "--batch-size", str(batch_size)]
    done = subprocess.run(command, capture_output=True, text=True)
    speed = SPEED.search(done.stdout + done.stderr)
    if done.returncode or not speed:
        raise InputError(f"{' '.join(command)} failed: {failure_reason(done.stderr)}")
    if not float(speed[3]):  # fairseq reports tenths
        raise InputError(
            f"{args.gen_subset} takes less than 0.05 s: give a --gen-subset of more sentences"
        )
    hypotheses = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", done.stdout, re.MULTILINE))
    return float(speed[3]), hypotheses
