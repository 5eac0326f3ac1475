"""Report on training runs and compare them with the paper, as HTML, Markdown and JSON.

The report shows the curves, settings, data, cost and scores of a run, next to the paper's Tables 2
to 4. Several runs are laid out as in Table 3, with their differences from the first one. RUN is
a run directory that holds checkpoints/run.jsonl (which every training run writes), scores.json and
scores-valid.json (aiayn score --json). The run may have been restarted or still be running. Missing
and unreadable files are listed.
"""

import argparse
import os
from pathlib import Path

from ..errors import InputError
from ..plots import load_matplotlib
from ..report.report import report
from ..report.run import read_run
from ..text.lines import escape_unprintable


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    runs = "run directory, --save-dir of fairseq-train, or run.jsonl alone"
    add("runs", nargs="+", metavar="RUN", type=Path, help=runs)
    add(
        "--output",
        metavar="NAME",
        type=Path,
        help="write NAME.html, NAME.md and NAME.json (default: report, in RUN or in the common "
        "directory of the runs)",
    )
    add(
        "--tflops",
        metavar="X",
        type=float,
        help="sustained TFLOPS of the device, for the paper's estimate of the cost (default: the "
        "paper's values: K80 2.8, K40 3.7, M40 6.0, P100 9.5; other devices: no estimate)",
    )


def run(args: argparse.Namespace) -> None:
    """Write the report. Raises InputError or OSError for a path that is not a run."""
    if args.tflops is not None and not 0 < args.tflops < 1e6:
        raise InputError("--tflops must be above 0 and below 1,000,000")
    load_matplotlib()  # before anything is read
    stem = output_stem(args.output, args.runs)
    files = [stem.with_name(f"{stem.name}{suffix}") for suffix in (".html", ".md", ".json")]
    existing = [path for path in files if path.exists()]
    if args.output is not None and 0 < len(existing) < len(files):
        raise InputError(f"{existing[0]} is not part of a report: give a different --output")
    runs = [read_run(path, args.tflops) for path in args.runs]
    paths = report(runs).write(stem)
    for fault in (f"{run.name}: {fault}" for run in runs for fault in run.faults):
        print(fault)
    print("the report is in", escape_unprintable(", ".join(map(str, paths))))


def output_stem(output: Path | None, runs: list[Path]) -> Path:
    """Return the files' path without suffix. Raises InputError for a path without a name."""
    if output is not None:
        if output.name in ("", ".."):
            raise InputError(f"--output '{output}' has no file name: give one such as runs/report")
        return output.with_suffix("") if output.suffix in (".html", ".md", ".json") else output
    if len(runs) == 1 and runs[0].is_dir():
        return runs[0] / "report"
    return Path(os.path.commonpath([path.resolve().parent for path in runs])) / "report"
