"""`aiayn architectures`: Table 3 by name, with exact parameter counts."""

import argparse

from ..errors import InputError
from ..paper import format_architectures

HELP = "list the architectures of the paper with their sizes and exact parameters"
DESCRIPTION = (
    "Every --arch with its sizes, its exact number of parameters, and the number "
    "that the paper gives. Learned positions are counted with 1,024 on each side."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn architectures`."""
    parser.add_argument(
        "--vocabulary",
        type=int,
        default=37_000,
        metavar="V",
        help="entries of the shared dictionary (default: 37,000)",
    )


def run(args: argparse.Namespace) -> None:
    """Print the format_architectures. Raises InputError for a vocabulary of less than one word."""
    if args.vocabulary < 1:
        raise InputError(f"a vocabulary of {args.vocabulary} words is none")
    print(format_architectures(args.vocabulary))
