"""Code shared by the commands: messages, progress, options and interruptions."""

import argparse
import contextlib
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tqdm import tqdm

from ..text.settings import MOSES, SACREMOSES


def say(message: str) -> None:
    """Print a line to standard error."""
    print(message, file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress(
    activity: str, total: int | None, unit: str = "bytes", initial: int = 0
) -> Iterator[Callable[[int], object]]:
    """Yield a function that adds to the work done and shows the progress.

    On a terminal it advances a bar; otherwise it prints a line for every tenth of the total, in MB
    and with the rate if the unit is bytes. A total of 0 shows nothing; None means unknown.
    """
    done, began = initial, time.monotonic()

    def add(number: int) -> None:
        nonlocal done
        before, done = done, done + number
        if total and done * 10 // total > before * 10 // total:
            state = f"{done:,} of {total:,} {unit}"
            if unit == "bytes":
                rate = (done - initial) / max(time.monotonic() - began, 1e-3)
                state = f"{done / 1e6:,.1f} of {total / 1e6:,.1f} MB, {rate / 1e6:,.1f} MB/s"
            say(f"{activity}: {state}")

    if sys.stderr is not None and sys.stderr.isatty():
        with tqdm(
            desc=activity,
            total=total,
            initial=initial,
            unit="B" if unit == "bytes" else f" {unit}",
            unit_scale=unit == "bytes",
            disable=total == 0,
        ) as bar:
            yield bar.update
    else:
        yield add


def add_tokenizer(parser: argparse.ArgumentParser) -> None:
    """Add the option that sets `tokenizer`, one of TOKENIZERS."""
    parser.add_argument(
        "--protect-patterns",
        dest="tokenizer",
        action="store_const",
        const=SACREMOSES,
        default=MOSES,
        help="do not split times, fractions, units and compounds with a slash or a dash, such as "
        "15:05, and/or, km² and 1939–1945; tokenise by sacremoses's rules, "
        "which differ from Moses's in rare letters, single quotes and control characters "
        "(default: Moses's tokens, exact for English, German and French)",
    )


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Add the option --workers to a parser."""
    parser.add_argument(
        "--workers",
        type=int,
        default=len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        help="number of worker processes (default: all cores)",
    )


def show_next_step(data: str, arch: str = "aiayn_base", note: str = "") -> None:
    """Print where the data is, and the command that trains a model on it."""
    checkpoints = str(Path(data).parent / "checkpoints")
    train = ["fairseq-train", data, "--user-dir", "aiayn_plugin", "--arch", arch]
    print(f"data is in {data}; next: {shlex.join([*train, '--save-dir', checkpoints])}{note}")


@contextlib.contextmanager
def explain_interrupts(outcome: str) -> Iterator[None]:
    """After an interruption, print one line that ends in `outcome` and exit with status 130.

    SIGTERM becomes an interruption too, so that the command cleans up. May decorate a function.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        say(f"aiayn: interrupted; {outcome}")
        raise SystemExit(130) from None
