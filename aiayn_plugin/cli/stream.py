"""Standard input to standard output, line by line: `aiayn translate` and `aiayn parse`."""

import argparse
import sys
from collections.abc import Callable
from itertools import islice
from typing import Any

from tqdm import tqdm

from ..errors import InputError
from ..inference.predictor import P
from ..paper import SearchSettings
from ..text.lines import decode_lines
from .options import add_batching, add_model, add_search, check_positive

#: Lines that are read at once, and then batched by length.
BUFFER_LINES = 10_000


def add_options(parser: argparse.ArgumentParser, search: SearchSettings, output: str) -> None:
    """Add the options of a model, its search, and its output, such as "tree"."""
    add_model(parser, translates=output == "translation")
    add_search(parser, search)
    add_batching(parser)
    add = parser.add_argument
    nbest_help = (
        f"up to N {output}s per line, as: line number ||| {output} ||| score (default: 1, plain)"
    )
    add("--nbest", metavar="N", type=int, default=1, help=nbest_help)
    line_help = "process each line before reading the next one (default on a terminal)"
    add("--line-by-line", action="store_true", help=line_help)


def load(predictor: type[P], args: argparse.Namespace, **options: Any) -> P:
    """Return a predictor for the model and the search given on the command line.

    Raises InputError for invalid options or closed streams before it loads the model, and whatever
    Predictor.load raises.
    """
    check_positive(args, "beam")
    if not 1 <= args.nbest <= args.beam:
        raise InputError(f"--nbest {args.nbest} must be from 1 to --beam {args.beam}")
    if sys.stdin is None or sys.stdout is None:
        raise InputError("standard input or output is closed: the command needs both")
    names = ("device", "precision", "max_tokens", "beam", "lenpen", "nbest", "user_dir")
    return predictor.load(args.model, **{name: getattr(args, name) for name in names}, **options)


def process_lines(
    args: argparse.Namespace, process: Callable[..., list], show: Callable[[Any], str]
) -> None:
    """Process standard input.

    process: translate_nbest of a Translator, or a function with the same arguments; show: returns
    one of its outputs as text. Raises InputError or OSError for invalid text.
    """
    line_by_line = args.line_by_line or sys.stdin.isatty()
    lines = decode_lines(sys.stdin.buffer, "standard input")
    first = 1
    hide_progress = line_by_line or sys.stderr is None or not sys.stderr.isatty()
    with tqdm(unit=" sentences", disable=hide_progress) as progress:
        while buffer := list(islice(lines, 1 if line_by_line else BUFFER_LINES)):
            for number, outputs in enumerate(process(buffer, first, progress.update), first):
                if args.nbest == 1:
                    texts = list(map(show, outputs)) or [""]
                else:
                    texts = [f"{number} ||| {show(each)} ||| {each.score:.4f}" for each in outputs]
                sys.stdout.buffer.write("".join(f"{text}\n" for text in texts).encode())
            sys.stdout.flush()
            first += len(buffer)
