"""Standard input to standard output, line by line: `aiayn translate` and `aiayn parse`."""

import argparse
import sys
from collections.abc import Callable
from itertools import islice

from tqdm import tqdm

from ..errors import InputError
from ..paper import SearchSettings
from ..text.lines import decode_lines
from . import options

#: Lines that are read at once, and then batched by length.
BUFFER_LINES = 10_000

#: Maps lines to output texts. Its further arguments are the number of the first line, and a
#: callback for each batch, which takes the batch's number of sentences.
Process = Callable[[list[str], int, Callable[[int], object]], list[str]]


def add_options(parser: argparse.ArgumentParser, search: SearchSettings, nbest_help: str) -> None:
    """Add the options of a model, its search, and its output."""
    options.add_model(parser)
    options.add_search(parser, search)
    options.add_batching(parser)
    parser.add_argument("--nbest", metavar="N", type=int, default=1, help=nbest_help)
    parser.add_argument(
        "--line-by-line",
        action="store_true",
        help="process each line before reading the next one (default on a terminal)",
    )


def check_options(args: argparse.Namespace) -> None:
    """Raise InputError for invalid options or closed streams, before the model is loaded."""
    options.check_positive(args, "beam")
    if not 1 <= args.nbest <= args.beam:
        raise InputError(f"--nbest {args.nbest} must be from 1 to --beam {args.beam}")
    if sys.stdin is None or sys.stdout is None:
        raise InputError("standard input or output is closed: the command needs both")


def process_lines(args: argparse.Namespace, process: Process) -> None:
    """Process standard input. Raises InputError or OSError for invalid text."""
    line_by_line = args.line_by_line or sys.stdin.isatty()
    lines = decode_lines(iter(sys.stdin.buffer.readline, b""), "standard input")
    first = 1
    hide_progress = line_by_line or sys.stderr is None or not sys.stderr.isatty()
    with tqdm(unit=" sentences", disable=hide_progress) as progress:
        while buffer := list(islice(lines, 1 if line_by_line else BUFFER_LINES)):
            for text in process(buffer, first, progress.update):
                sys.stdout.buffer.write(f"{text}\n".encode())
            sys.stdout.flush()
            first += len(buffer)
