"""From standard input to standard output: what `aiayn translate` and `aiayn parse` share."""

import argparse
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from tqdm import tqdm

from ..errors import InputError
from ..inference.run_directory import PRECISIONS
from ..paper import SearchSettings
from ..text.lines import decode_lines

#: Lines that are read before they are sorted by length.
BUFFER = 10_000

#: What answers lines: it gets them, the number of the first, and a function that it calls after
#: each batch with its number of sentences. It returns the text of each answer.
Answer = Callable[[list[str], int, Callable[[int], object]], list[str]]


def add_search_options(parser: argparse.ArgumentParser, search: SearchSettings) -> None:
    """Add the options of a model and its search."""
    parser.add_argument(
        "model",
        metavar="MODEL_DIR",
        type=Path,
        help="what a recipe of examples/ leaves behind, or aiayn bundle made",
    )
    parser.add_argument("--beam", type=int, default=search.beam, help="default: %(default)s")
    parser.add_argument(
        "--lenpen",
        type=float,
        default=search.alpha,
        help="α of GNMT's length penalty (default: %(default)s)",
    )
    parser.add_argument(
        "--max-tokens",
        metavar="N",
        type=int,
        default=2000,
        help="source tokens of a batch (default: %(default)s)",
    )
    parser.add_argument(
        "--device", default=None, help="as torch names it (default: a GPU if there is one)"
    )
    parser.add_argument(
        "--precision", choices=sorted(PRECISIONS), default="float32", help="default: %(default)s"
    )


def add_options(parser: argparse.ArgumentParser, search: SearchSettings, nbest: str) -> None:
    """Add the options of a model, its search and what is answered. nbest: the help of --nbest."""
    add_search_options(parser, search)
    parser.add_argument("--nbest", metavar="N", type=int, default=1, help=nbest)
    parser.add_argument(
        "--line-by-line", action="store_true", help="answer each line before the next is read"
    )


def check(args: argparse.Namespace) -> None:
    """Raise InputError for options that make no sense, before a model is loaded."""
    if args.beam < 1:
        raise InputError(f"--beam {args.beam} must be at least 1")
    if not 1 <= args.nbest <= args.beam:
        raise InputError(f"--nbest {args.nbest} must be from 1 to --beam {args.beam}")
    if sys.stdin is None or sys.stdout is None:
        raise InputError(
            "standard input or output is closed: the text comes from one, and the "
            "answer goes to the other"
        )


def stream(args: argparse.Namespace, answer: Answer) -> None:
    """Answer standard input on standard output. Raises InputError or OSError for unusable text."""
    at_once = args.line_by_line or sys.stdin.isatty()
    lines = _lines(sys.stdin.buffer)
    number = 1
    watched = sys.stderr is not None and sys.stderr.isatty()
    with tqdm(unit=" sentences", disable=at_once or not watched) as progress:
        while buffer := list(islice(lines, 1 if at_once else BUFFER)):
            for text in answer(buffer, number, progress.update):
                sys.stdout.buffer.write(f"{text}\n".encode())
            number += len(buffer)
            sys.stdout.flush()


def _lines(stream: BinaryIO) -> Iterator[str]:
    yield from decode_lines(iter(stream.readline, b""), "standard input")
