"""`aiayn`: the commands that fairseq does not have."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from .commands import add_commands

COMMANDS = (
    "architectures",
    "attention",
    "average",
    "benchmark",
    "bundle",
    "configs",
    "convert",
    "export",
    "parse",
    "report",
    "score",
    "serve",
    "translate",
)


def main(argv: Sequence[str] | None = None) -> None:
    """Run `aiayn COMMAND …`; bad input ends it with one line on stderr and exit status 1."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="aiayn", description=__doc__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    # To import fairseq takes seconds, and some commands need neither it nor torch: only the module
    # of the command is imported. The help needs all.
    wanted = [argv[0]] if argv and argv[0] in COMMANDS else COMMANDS
    add_commands(commands, [import_module(f".{name}", __package__) for name in wanted])
    args = parser.parse_args(argv)
    # What they tell a user of fairseq's commands is not what our commands are asked.
    for library in ("fairseq", "sacrebleu", "aiayn_plugin.fairseq_plugin"):
        logging.getLogger(library).setLevel(logging.WARNING)
    try:
        args.run(args)
    except KeyboardInterrupt:
        raise SystemExit(f"aiayn: {argv[0]} was interrupted") from None
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except FileNotFoundError as error:
        raise SystemExit(
            f"aiayn: error: {error.filename} is missing: see the paths of the command"
        ) from None
    except (OSError, ValueError) as error:  # InputError is a ValueError
        raise SystemExit(f"aiayn: error: {error}") from None
