"""`aiayn report`: a run beside the paper's tables, or several in the layout of Table 3."""

import argparse
import os
import time
from contextlib import suppress
from pathlib import Path

from ..errors import InputError
from ..plots import matplotlib
from ..report.formatting import printable
from ..report.report import Report, report
from ..report.run import Run, read_run

HELP = "a training run beside the paper, as a page, Markdown and JSON"
DESCRIPTION = (
    "Shows what a recipe of examples/ left in its directory: curves, settings, data, cost and "
    "scores, beside the paper's Tables 2 and 3. Several runs come in the layout of Table 3, with "
    "their differences to the first one. The log may be of a run that was restarted or goes on "
    "still; what is missing or cannot be read is named."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn report`."""
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        type=Path,
        help="directory that a recipe made, or the log of fairseq-train alone",
    )
    parser.add_argument(
        "--output",
        metavar="NAME",
        type=Path,
        default=None,
        help="write NAME.html, NAME.md and NAME.json (default: report, in RUN or "
        "in the directory that the runs are in)",
    )
    parser.add_argument(
        "--tflops",
        metavar="X",
        type=float,
        default=None,
        help="sustained TFLOPS of a device, for a cost the paper's way; the paper "
        "has K80 2.8, K40 3.7, M40 6.0, P100 9.5",
    )
    parser.add_argument(
        "--follow",
        metavar="SECONDS",
        type=int,
        nargs="?",
        const=60,
        default=None,
        help="write it anew every so many seconds (default: 60) until all runs "
        "have finished or Ctrl-C; the page in a browser opens itself anew",
    )


def run(args: argparse.Namespace) -> None:
    """Write the report. Raises InputError or OSError for what is no run."""
    if args.tflops is not None and not 0 < args.tflops < 1e6:
        raise InputError("--tflops must be above 0")
    if args.follow is not None and args.follow < 1:
        raise InputError("--follow must be at least 1")
    matplotlib()  # before anything is read
    stem = stem_of(args.output, args.runs)
    runs = [read_run(path) for path in args.runs]
    found = report(runs, args.tflops)
    with suppress(KeyboardInterrupt):
        while args.follow is not None and not all(run.log.finished for run in runs):
            found.write(stem, refresh=args.follow)
            print("  ".join(f"{run.name}: {run.log.update:,} updates" for run in runs), flush=True)
            time.sleep(args.follow)
            runs = [read_run(path) for path in args.runs]
            found = report(runs, args.tflops)
    say(found, runs, stem)


def say(found: Report, runs: list[Run], stem: Path) -> None:
    """Write the report, and print where it is and what could not be read."""
    for run in runs:
        for fault in run.faults:
            print(f"{run.name}: {fault}")
    print("the report is in", printable(", ".join(map(str, found.write(stem)))))


def stem_of(output: Path | None, runs: list[Path]) -> Path:
    """Return the files' path without its end. Raises InputError for a path without a name."""
    if output is not None:
        if output.name in ("", ".."):
            raise InputError(f"--output '{output}' names no file: give one such as runs/report")
        return output.with_suffix("") if output.suffix in (".html", ".md", ".json") else output
    if len(runs) == 1 and runs[0].is_dir():
        return runs[0] / "report"
    return Path(os.path.commonpath([path.resolve().parent for path in runs])) / "report"
