"""`aiayn`: the commands that fairseq does not have."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from . import (
    architectures,
    average,
    benchmark,
    bundle,
    configs,
    convert,
    export,
    score,
    translate,
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    """Run `aiayn COMMAND …`; bad input ends it with one line on stderr and exit status 1."""
    parser = argparse.ArgumentParser(prog="aiayn", description=__doc__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (architectures, average, benchmark, bundle, configs, convert, export, score,
                    translate):
        command.add_parser(commands)
    args = parser.parse_args(argv)
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    try:
        args.run(args)
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except (OSError, ValueError) as error:
        raise SystemExit(f"aiayn: error: {error}") from None
