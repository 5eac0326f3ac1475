"""`aiayn`: the commands that fairseq does not have."""

import argparse
from collections.abc import Sequence

from . import architectures, average, benchmark, configs, convert, score


def main(argv: Sequence[str] | None = None) -> None:
    """Run `aiayn COMMAND …`; bad input ends it with one line on stderr and exit status 1."""
    parser = argparse.ArgumentParser(prog="aiayn", description=__doc__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (architectures, average, benchmark, configs, convert, score):
        command.add_parser(commands)
    args = parser.parse_args(argv)
    try:
        args.run(args)
    except (OSError, ValueError) as error:
        raise SystemExit(f"aiayn: error: {error}") from None
