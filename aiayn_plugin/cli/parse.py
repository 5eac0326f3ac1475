"""`aiayn parse`: sentences to trees (§6.3)."""

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import InputError
from ..paper import PARSING_SEARCH
from . import stream

if TYPE_CHECKING:
    from ..inference.parser import Parse

HELP = "parse sentences into trees"
DESCRIPTION = (
    "Parse English sentences from standard input, one a line, with the paper's search of trees. "
    "The trees have brackets as in the Penn Treebank. On a terminal each line is answered at once."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn parse`."""
    nbest = "at most N trees of each line: line number ||| tree ||| score"
    stream.add_options(parser, PARSING_SEARCH, nbest)
    parser.add_argument(
        "--tokenised",
        action="store_true",
        help="the words have spaces between them already, as in the Penn Treebank",
    )
    parser.add_argument(
        "--pretty",
        action="store_true",
        help="indented, over several lines, with an empty line after each tree",
    )
    parser.add_argument(
        "--trees-only",
        action="store_true",
        help="let the search find nothing but trees over the words; without it, "
        "what is no tree is mended",
    )


def run(args: argparse.Namespace) -> None:
    """Parse standard input. Raises InputError or OSError for an unusable model or text."""
    stream.check(args)
    if args.pretty and args.nbest > 1:
        raise InputError("--pretty is for one tree of each line: leave out --nbest")
    from ..inference.parser import Parser
    from ..parsing.trees import as_line

    parser = Parser.load(
        args.model,
        args.device,
        args.precision,
        args.max_tokens,
        args.trees_only,
        beam=args.beam,
        lenpen=args.lenpen,
        nbest=args.nbest,
    )
    trees = mended = mends = 0

    def text(parse: "Parse") -> str:
        return f"{parse.tree.pformat()}\n" if args.pretty else as_line(parse.tree)

    def answer(lines: list[str], first: int, progress: Callable[[int], object]) -> list[str]:
        nonlocal trees, mended, mends
        found = parser.parse_nbest(lines, args.tokenised, first, progress)
        best = [parses[0] for parses in found if parses]
        trees += len(best)
        mended += sum(parse.mends > 0 for parse in best)
        mends += sum(parse.mends for parse in best)
        if args.nbest == 1:
            return [text(parses[0]) if parses else "" for parses in found]
        return [
            f"{number} ||| {text(parse)} ||| {parse.score:.4f}"
            for number, parses in enumerate(found, start=first)
            for parse in parses
        ]

    stream.stream(args, answer)
    if mends:
        print(f"mended: {mended:,} of {trees:,} trees, by {mends:,} mends", file=sys.stderr)
