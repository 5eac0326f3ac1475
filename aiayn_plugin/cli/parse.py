"""`aiayn parse`: sentences in, trees out (§6.3)."""

import argparse
import sys
from collections.abc import Callable

from ..errors import InputError
from ..paper import PARSING_SEARCH
from . import stream

HELP = "parse sentences into trees"
DESCRIPTION = (
    "Parse English sentences from standard input, one per line, with the paper's search for trees. "
    "Trees are printed with the Penn Treebank's brackets. On a terminal, each line is parsed as "
    "soon as it is entered."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn parse`."""
    nbest = "maximum of trees per line, as: line number ||| tree ||| score (default: 1, plain)"
    stream.add_options(parser, PARSING_SEARCH, nbest)
    add = parser.add_argument
    add(
        "--tokenised",
        action="store_true",
        help="input with spaces between words already, as in the Penn Treebank",
    )
    add("--pretty", action="store_true", help="indented trees with an empty line after each")
    add(
        "--trees-only",
        action="store_true",
        help="restrict the search to trees over the words (default: repair other output)",
    )


def run(args: argparse.Namespace) -> None:
    """Parse standard input. Raises InputError or OSError for an unusable model or text."""
    stream.check_options(args)
    if args.pretty and args.nbest > 1:
        raise InputError("--pretty prints one tree per line: omit --nbest")
    from ..inference.parser import Parser
    from ..parsing.trees import format_tree

    parser = Parser.load(
        args.model,
        args.device,
        args.precision,
        args.max_tokens,
        trees_only=args.trees_only,
        beam=args.beam,
        lenpen=args.lenpen,
        nbest=args.nbest,
    )
    repairs: list[int] = []  # of each tree

    def parse(lines: list[str], first: int, progress: Callable[[int], object]) -> list[str]:
        parsed = parser.parse_nbest(lines, args.tokenised, first, progress)
        repairs.extend(nbest[0].repairs for nbest in parsed if nbest)
        if args.pretty:
            return [f"{nbest[0].tree.pformat()}\n" if nbest else "" for nbest in parsed]
        if args.nbest == 1:
            return [format_tree(nbest[0].tree) if nbest else "" for nbest in parsed]
        return [
            f"{number} ||| {format_tree(each.tree)} ||| {each.score:.4f}"
            for number, nbest in enumerate(parsed, start=first)
            for each in nbest
        ]

    stream.process_lines(args, parse)
    if any(repairs):
        repaired = sum(count > 0 for count in repairs)
        print(
            f"repaired {repaired:,} of {len(repairs):,} trees, with {sum(repairs):,} repairs",
            file=sys.stderr,
        )
