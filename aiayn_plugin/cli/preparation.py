"""Options, interrupt handling and the closing message of the data preparation commands."""

import argparse
import contextlib
import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..corpus.console import say
from ..corpus.data_directory import check
from ..text.settings import MOSES, SACREMOSES


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


def add_check(parser: argparse.ArgumentParser) -> None:
    """Add the option --check to a parser. Like --help, it needs no other option, and exits."""
    parser.add_argument(
        "--check",
        metavar="DIR",
        type=Path,
        action=_Check,
        help="verify the checksums of prepared data, list changed files, and exit",
    )


class _Check(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        check(values)
        parser.exit()


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
