"""Parse sentences into trees.

Reads English sentences from standard input, one per line, and writes trees in the Penn Treebank's
format, found by the paper's search for trees (§6.3). On a terminal, each line is parsed as soon as
it is entered.
"""

import argparse
import sys
from typing import Any

from ..errors import InputError
from ..paper import PARSING_SEARCH
from . import stream


def add_options(parser: argparse.ArgumentParser) -> None:
    stream.add_options(parser, PARSING_SEARCH, "tree")
    add = parser.add_argument
    tokenised_help = "the input is already split into words by spaces, as in the Penn Treebank"
    add("--tokenised", action="store_true", help=tokenised_help)
    add("--pretty", action="store_true", help="indent trees, with an empty line after each")
    trees_help = "restrict the search to trees over the words (default: repair malformed output)"
    add("--trees-only", action="store_true", help=trees_help)


def run(args: argparse.Namespace) -> None:
    """Parse standard input. Raises InputError or OSError for an unusable model or text."""
    if args.pretty and args.nbest > 1:
        raise InputError("--pretty shows only the best tree of each sentence: omit --nbest")
    from ..inference.parser import Parse, Parser
    from ..parsing.trees import format_tree

    parser = stream.load(Parser, args, trees_only=args.trees_only)
    repairs: list[int] = []  # of each tree

    def parse(lines: list[str], *settings: Any) -> list[list[Parse]]:
        parsed = parser.parse_nbest(lines, args.tokenised, *settings)
        repairs.extend(nbest[0].repairs for nbest in parsed if nbest)
        return parsed

    def show(parsed: Parse) -> str:
        return f"{parsed.tree.pformat()}\n" if args.pretty else format_tree(parsed.tree)

    stream.process_lines(args, parse, show)
    if any(repairs) and sys.stderr is not None:  # print would otherwise use standard output
        repaired = sum(count > 0 for count in repairs)
        print(
            f"repaired {repaired:,} of {len(repairs):,} trees, with {sum(repairs):,} repairs",
            file=sys.stderr,
        )
