"""Compare the search with fairseq's and CTranslate2's.

Translates a split with fairseq's model and with the same model converted by aiayn convert,
alternating, each at its best batch size. Each system is loaded once, in its own process
(CTranslate2 in the main one), and warmed up; only the search of each batch is timed. Also compares
the hypotheses, and their sacreBLEU if aiayn prepare made the data.
"""

import argparse
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..checkpoints.ctranslate2_model import QUANTIZATIONS
from ..errors import InputError
from ..paper import SearchSettings
from ..text.lines import read_lines
from ..text.pipeline import TextPipeline
from ..text.scores import sacrebleu_metric
from ..text.settings import find_settings
from .measure import write_json
from .searches import Search, Translate, load_ctranslate2
from .worker import PLUGIN, Worker

FAIRSEQ_OPTIONS = ["--task", "translation", "--required-batch-size-multiple", "1"]
#: The options of the plugin's two searches.
PLUGIN_SEARCHES = {"plugin": ["--length-penalty", "fairseq"], "plugin, the paper's search": []}


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("data", type=Path, metavar="DATA", help="fairseq data directory")
    add(
        "--fairseq-model",
        type=Path,
        required=True,
        metavar="FILE",
        help="model in fairseq's format",
    )
    plugin_help = "the same model in the plugin's format (aiayn convert)"
    add("--plugin-model", type=Path, required=True, metavar="FILE", help=plugin_help)
    add("--gen-subset", default="valid", help="split to translate")
    add("--beam", type=int, default=SearchSettings.beam, help="beam size")
    lenpen_help = "exponent of the length penalty"
    add("--lenpen", type=float, default=SearchSettings.lenpen, help=lenpen_help)
    sizes_help = "batch sizes to try, in sentences; the fastest of each system is compared"
    add("--batch-sizes", type=int, nargs="+", default=[32, 64, 128], metavar="N", help=sizes_help)
    add("--runs", type=int, default=3, help="number of runs; medians are reported")
    length_help = "tokens of each hypothesis, for an untrained model (default: the model decides)"
    add("--length", type=int, metavar="N", help=length_help)
    count_help = "measure the latency of the first N sentences (default: measure batches)"
    add("--one-by-one", type=int, default=0, metavar="N", help=count_help)
    precisions, precision_help = ("float32", "fp16", "bf16", "int8"), "precisions of the plugin"
    add("--precisions", nargs="+", choices=precisions, default=["float32"], help=precision_help)
    add(
        "--fairseq-precision",
        choices=precisions[:2],
        default="float32",
        help="precision of fairseq",
    )
    engine_help = "precisions of CTranslate2 on the CPU (default: do not run it)"
    add("--ctranslate2", nargs="+", choices=QUANTIZATIONS, default=[], help=engine_help)
    add("--cpu", action="store_true", help="use the CPU even if there is a GPU")
    add("--output", type=Path, metavar="FILE.json", help="write the results as JSON")


def run(args: argparse.Namespace) -> None:
    """Measure all systems and print a comparison. Raises InputError if one fails."""
    if args.runs < 1 or args.one_by_one < 0 or min(args.batch_sizes) < 1:
        raise InputError("--runs and --batch-sizes must be at least 1, --one-by-one at least 0")
    commands = {"fairseq": _generation_options(args, args.fairseq_model, args.fairseq_precision)}
    for precision in args.precisions:
        for search, options in PLUGIN_SEARCHES.items():
            argv = _generation_options(args, args.plugin_model, precision, options)
            commands[f"{search}, {precision}"] = argv
    with tempfile.TemporaryDirectory() as directory:
        engines = load_ctranslate2(args) if args.ctranslate2 else {}
        workers = {
            name: Worker(Search, argv, Path(directory) / f"{name}.log")
            for name, argv in commands.items()
        }
        systems: dict[str, Translate] = {
            name: partial(worker.call, Search.translate) for name, worker in workers.items()
        }
        rows = _measure(args, systems | engines)
        for worker in workers.values():
            worker.close()
    if args.output:
        write_json(rows, args.output)


def _measure(args: argparse.Namespace, systems: dict[str, Translate]) -> list[dict[str, Any]]:
    """Run each system, alternating; print and return the results."""
    for translate in systems.values():
        translate(1, 3)  # warm-up
    sizes = {name: _find_batch_size(args, name, system) for name, system in systems.items()}
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    hypotheses: dict[str, dict[int, str]] = {}
    for number in range(1, args.runs + 1):
        for name, translate in systems.items():
            durations, hypotheses[name] = translate(sizes[name], args.one_by_one)
            if args.one_by_one:
                seconds[name] += durations
            else:
                seconds[name].append(sum(durations))
                print(f"{name:<35} run   {number:>4}  {sum(durations):8.2f} s", flush=True)
    if args.one_by_one:
        print(
            f"one sentence at a time, the first {args.one_by_one} of {args.gen_subset}, "
            f"{args.runs} runs, alternating; beam {args.beam}"
        )
        return [_latency(name, seconds) for name in systems]
    print(
        f"\nmedians of {args.runs} runs, alternating; {len(hypotheses['fairseq']):,} sentences of "
        f"{args.gen_subset}, beam {args.beam}"
    )
    return [_throughput(args, name, sizes[name], seconds, hypotheses) for name in systems]


def _find_batch_size(args: argparse.Namespace, name: str, translate: Translate) -> int:
    """Return the fastest of several batch sizes."""
    if args.one_by_one or len(args.batch_sizes) == 1:
        return args.batch_sizes[0]
    seconds = {}
    for size in args.batch_sizes:
        seconds[size] = sum(translate(size, 0)[0])
        print(f"{name:<35} batch {size:>4}  {seconds[size]:8.2f} s", flush=True)
    return min(seconds, key=seconds.__getitem__)


def _latency(name: str, seconds: dict[str, list[float]]) -> dict[str, Any]:
    """Print and return the latency of a system. seconds: of each sentence."""
    median, percentile_95 = np.quantile(seconds[name], [0.5, 0.95]).tolist()
    ratio = statistics.median(seconds["fairseq"]) / median
    print(
        f"{name:<35} median {1000 * median:8.1f} ms  "
        f"95th percentile {1000 * percentile_95:8.1f} ms  {ratio:5.2f} ×"
    )
    return {
        "system": name,
        "median": median,
        "percentile_95": percentile_95,
        "ratio": ratio,
        "seconds": seconds[name],
    }


def _throughput(
    args: argparse.Namespace,
    name: str,
    batch_size: int,
    seconds: dict[str, list[float]],
    hypotheses: dict[str, dict[int, str]],
) -> dict[str, Any]:
    """Print and return the speed of a system, with its hypotheses compared. seconds: per run."""
    median, theirs = statistics.median(seconds[name]), hypotheses["fairseq"]
    ratio = statistics.median(seconds["fairseq"]) / median
    same = sum(hypotheses[name].get(number) == text for number, text in theirs.items())
    bleu = _bleu(args, hypotheses[name])
    print(
        f"{name:<35} batch {batch_size:>4}  {len(theirs) / median:8.2f} sentences/s  "
        f"{ratio:5.2f} ×  {same:,} hypotheses identical to fairseq's"
        + (f"  sacreBLEU {bleu:.2f}" if bleu is not None else "")
    )
    return {
        "system": name,
        "batch_size": batch_size,
        "seconds": seconds[name],
        "ratio": ratio,
        "same": same,
        "sentences": len(theirs),
        "sacrebleu": bleu,
    }


def _bleu(args: argparse.Namespace, hypotheses: dict[int, str]) -> float | None:
    """Return sacreBLEU of the raw text, or None if the data has no raw references."""
    settings = find_settings(args.data)
    if settings is None or settings.holds_trees:
        return None
    references = args.data / f"{args.gen_subset}.raw.{settings.target_lang}"
    if not references.is_file():
        return None
    pipeline = TextPipeline.load(args.data)
    text = [pipeline.decode(hypotheses[number]) for number in range(len(hypotheses))]
    metric = sacrebleu_metric(settings.target_lang)
    return metric.corpus_score(text, [list(read_lines(references))]).score


def _generation_options(
    args: argparse.Namespace, model: Path, precision: str, search: list[str] = FAIRSEQ_OPTIONS
) -> list[str]:
    """Return the arguments of fairseq-generate."""
    argv = [args.data, "--user-dir", PLUGIN, "--path", model]
    argv += ["--gen-subset", args.gen_subset, "--beam", args.beam, "--lenpen", args.lenpen, *search]
    argv += ["--cpu"] if args.cpu else []
    argv += [f"--{precision}"] if precision != "float32" else []
    if args.length:
        argv += ["--min-len", args.length, "--max-len-a", 0, "--max-len-b", args.length]
    return list(map(str, argv))
