"""`aiayn translate`: raw text to raw text."""

import argparse
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from tqdm import tqdm

from ..errors import InputError
from ..paper import SearchSettings
from ..text.lines import decode_lines
from ..translator import PRECISIONS, Translation, Translator

#: Lines that are read before they are sorted by length.
BUFFER = 10_000

HELP = "translate raw text"
DESCRIPTION = (
    "Translate raw text from standard input, a sentence a line, with the paper's "
    "search. On a terminal each line is answered at once."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn translate`."""
    parser.add_argument("model", metavar="MODEL_DIR", type=Path,
                        help="what a recipe of examples/ leaves behind, or aiayn bundle made")
    parser.add_argument("--beam", type=int, default=SearchSettings.beam,
                        help="default: %(default)s")
    parser.add_argument("--lenpen", type=float, default=SearchSettings.alpha,
                        help="α of GNMT's length penalty (default: %(default)s)")
    parser.add_argument("--nbest", metavar="N", type=int, default=1,
                        help="N translations of each line: line number ||| translation ||| score")
    parser.add_argument("--line-by-line", action="store_true",
                        help="answer each line before the next is read")
    parser.add_argument("--max-tokens", metavar="N", type=int, default=2000,
                        help="source tokens of a batch (default: %(default)s)")
    parser.add_argument("--device", default=None,
                        help="as torch names it (default: a GPU if there is one)")
    parser.add_argument("--precision", choices=sorted(PRECISIONS), default="float32",
                        help="default: %(default)s")


def run(args: argparse.Namespace) -> None:
    """Translate standard input. Raises InputError or OSError for an unusable model or text."""
    if args.beam < 1:
        raise InputError(f"--beam {args.beam} must be at least 1")
    if not 1 <= args.nbest <= args.beam:
        raise InputError(f"--nbest {args.nbest} must be from 1 to --beam {args.beam}")
    if sys.stdin is None or sys.stdout is None:
        raise InputError("standard input or output is closed: the text comes from one, and the "
                         "translation goes to the other")
    translator = Translator.load(
        args.model, args.device, args.precision, args.max_tokens,
        beam=args.beam, lenpen=args.lenpen, nbest=args.nbest,
    )  # fmt: skip
    at_once = args.line_by_line or sys.stdin.isatty()
    lines = _lines(sys.stdin.buffer)
    number = 0
    watched = sys.stderr is not None and sys.stderr.isatty()
    with tqdm(unit=" sentences", disable=at_once or not watched) as progress:
        while buffer := list(islice(lines, 1 if at_once else BUFFER)):
            for translations in translator.translate_nbest(buffer, number + 1, progress.update):
                number += 1
                _write(translations, number, args.nbest)
            sys.stdout.flush()


def _lines(stream: BinaryIO) -> Iterator[str]:
    yield from decode_lines(iter(stream.readline, b""), "standard input")


def _write(translations: list[Translation], number: int, nbest: int) -> None:
    for translation in translations:
        text = translation.text
        line = text if nbest == 1 else f"{number} ||| {text} ||| {translation.score:.4f}"
        sys.stdout.buffer.write(f"{line}\n".encode())
