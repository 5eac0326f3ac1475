"""`aiayn benchmark decoding`: the plugin's search beside fairseq's, on the same weights."""

import argparse
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

SPEED = re.compile(r"Translated ([\d,]+) sentences \(([\d,]+) tokens\) in ([\d.]+)s")
#: Both search by fairseq's rules; fairseq's own command with the task that is its own.
WAYS = {
    "fairseq": ["--task", "translation", "--required-batch-size-multiple", "1"],
    "plugin": ["--length-penalty", "fairseq"],
    "plugin, the paper's search": [],
}


def add_parser(kinds: Any) -> None:
    """Add `decoding` to the commands of `aiayn benchmark`."""
    parser = kinds.add_parser(
        "decoding",
        help="fairseq-generate with the plugin's search against fairseq's own",
        description="Translate a set with fairseq's model and its converted twin (aiayn convert), "
        "alternating, each at its best batch size; and compare the hypotheses.",
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="a fairseq data directory")
    parser.add_argument("--stock", type=Path, required=True, metavar="FILE",
                        help="a checkpoint of fairseq's model")
    parser.add_argument("--converted", type=Path, required=True, metavar="FILE",
                        help="the same, converted")
    parser.add_argument("--gen-subset", default="valid")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--lenpen", type=float, default=0.6)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[32, 64, 128], metavar="N")
    parser.add_argument("--runs", type=int, default=3, help="medians of so many (default: 3)")
    parser.add_argument("--precision", choices=("float32", "fp16", "bf16"), default="float32",
                        help="of the plugin's side (default: %(default)s)")
    parser.add_argument("--stock-precision", choices=("float32", "fp16"), default="float32",
                        help="of fairseq's side (default: %(default)s)")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--output", type=Path, metavar="FILE.json")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Measure and print. Raises ValueError where a command fails."""
    best: dict[str, tuple[float, int]] = {}
    for way in WAYS:
        for size in args.batch_sizes:
            taken, _ = _generate(args, way, size)
            print(f"{way:<28} batch {size:>4}  {taken:8.2f} s", flush=True)
            best[way] = min(best.get(way, (taken, size)), (taken, size))
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    found: dict[str, dict[str, str]] = {}
    for _ in range(args.runs):
        for way in WAYS:
            taken, found[way] = _generate(args, way, best[way][1])
            seconds[way].append(taken)
    reference = statistics.median(seconds["fairseq"])
    sentences = len(found["fairseq"])
    print(f"\nmedians of {args.runs} runs, alternating; {sentences:,} sentences of "
          f"{args.gen_subset}, beam {args.beam}, {args.precision}")
    rows = []
    for way in WAYS:
        median = statistics.median(seconds[way])
        same = sum(found[way].get(n) == text for n, text in found["fairseq"].items())
        rows.append({"way": way, "batch_size": best[way][1], "seconds": seconds[way],
                     "ratio": reference / median, "same": same, "sentences": sentences})
        print(f"{way:<28} batch {best[way][1]:>4}  {sentences / median:8.2f} sentences/s  "
              f"{reference / median:5.2f} ×  {same:,} hypotheses as fairseq's")
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def _generate(args: argparse.Namespace, way: str, size: int) -> tuple[float, dict[str, str]]:
    """Seconds of search, as fairseq-generate reports them, and sentence number to hypothesis."""
    stock = way == "fairseq"
    precision = args.stock_precision if stock else args.precision
    command = [
        str(Path(sys.executable).with_name("fairseq-generate")), str(args.data),
        "--user-dir", str(Path(__file__).resolve().parent.parent),
        "--path", str(args.stock if stock else args.converted), "--gen-subset", args.gen_subset,
        "--beam", str(args.beam), "--lenpen", str(args.lenpen), "--batch-size", str(size),
        *WAYS[way], *(["--cpu"] if args.cpu else []),
        *([f"--{precision}"] if precision != "float32" else []),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    match = SPEED.search(done.stdout + done.stderr)
    if done.returncode or not match:
        raise ValueError(f"{' '.join(command)} failed: {done.stderr[-1000:].strip()}")
    hypotheses = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", done.stdout, re.MULTILINE))
    return float(match[3]), hypotheses
