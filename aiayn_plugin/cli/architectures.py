"""List all architectures with their sizes and parameter counts.

Prints every --arch with its sizes, its exact number of parameters, and the number given in the
paper. The counts assume 1,024 learned positions on each side, and 100 tree symbols on a parser's
target side.
"""

import argparse

from ..errors import InputError
from ..paper import format_architectures


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--vocabulary", type=int, default=37_000, metavar="V", help="size of the shared dictionary"
    )


def run(args: argparse.Namespace) -> None:
    """Print the table. Raises InputError if the vocabulary is empty."""
    if args.vocabulary < 1:
        raise InputError("--vocabulary must be at least 1")
    print(format_architectures(args.vocabulary))
