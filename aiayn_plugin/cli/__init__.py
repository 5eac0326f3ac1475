"""`aiayn`: commands that complement fairseq's own."""

import argparse
import ast
import io
import logging
import os
import platform
import sys
import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..atomic import DISK_FULL
from ..text.lines import escape_unprintable

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
    "prepare",
    "prepare-trees",
    "report",
    "score",
    "serve",
    "translate",
    "wmt14",
)


def main(argv: Sequence[str] | None = None) -> None:
    """Run `aiayn COMMAND …`; bad input exits with status 1 and one line on stderr."""
    argv = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # escape what the terminal cannot encode
            stream.reconfigure(errors="backslashreplace")
    command = next((word for word in argv if not word.startswith("-")), "")
    try:
        run_command(command, argv)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        if sys.stderr is not None:  # print would otherwise use standard output
            print(f"aiayn: {command or 'help'} was interrupted", file=sys.stderr)
        raise SystemExit(130) from None
    except BrokenPipeError:  # as with `aiayn … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except Exception as error:
        if (message := explain(error, command)) is None:
            raise
        raise SystemExit(f"aiayn: error: {message}") from None


def run_command(command: str, argv: Sequence[str]) -> None:
    """Parse the arguments, and run the command.

    Only the command's module is imported: importing fairseq takes seconds, and some commands need
    neither fairseq nor torch.
    """
    parser = argparse.ArgumentParser(prog="aiayn", description=__doc__)
    parser.add_argument("--version", nargs=0, action=Version, help="print versions and exit")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    # Since 2.14, torch warns about code that fairseq runs on import.
    warnings.filterwarnings("ignore", message="`torch.jit.script` is deprecated")
    # These libraries log messages for users of fairseq's commands.
    for library in ("fairseq", "sacrebleu", "aiayn_plugin.fairseq_plugin"):
        logging.getLogger(library).setLevel(logging.WARNING)
    if command in COMMANDS:
        add_commands(commands, [import_module(f".{command.replace('-', '_')}", __package__)])
    else:  # --help, --version or an error
        for name in COMMANDS:
            source = Path(__file__).with_name(f"{name.replace('-', '_')}.py")
            text = ast.get_docstring(ast.parse(source.read_text("utf-8")))
            commands.add_parser(name, help=summary(text or name))
    args, unknown = parser.parse_known_args(argv)  # --check does its work here
    if unknown:
        commands.choices.get(argv[0], parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    args.run(args)


def explain(error: Exception, command: str) -> str | None:
    """Return the message for an error that the user can fix; None for a bug."""
    if isinstance(error, FileNotFoundError):
        advice = "does not exist: check the paths given to the command"
        return f"{error.filename} {advice}" if error.filename else str(error)
    if isinstance(error, OverflowError):
        return f"a number is too large: {error}"
    if isinstance(error, RuntimeError):
        from ..kernels.device import is_out_of_memory  # loads torch: not for a MemoryError

        if not is_out_of_memory(error):
            return None
    if isinstance(error, (RuntimeError, MemoryError)):
        return (
            f"not enough memory for {command}: stop other programs, or use a device that has more"
        )
    if isinstance(error, OSError) and error.errno in DISK_FULL and error.filename is None:
        return (
            f"the output cannot be written: {error.strerror}; once this is fixed, run the command "
            "again"
        )
    if isinstance(error, (OSError, ValueError)):  # InputError is a ValueError
        return "\n".join(map(escape_unprintable, str(error).split("\n")))
    return None


class Version(argparse.Action):
    """Prints the versions that a bug report needs, and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        fairseq = "fairseq" if sys.version_info < (3, 11) else "fairseq-fixed"
        names = ("aiayn-plugin", "torch", fairseq)
        aiayn, *libraries = (f"{name} {find_version(name)}" for name in names)
        print(", ".join((aiayn, f"Python {platform.python_version()}", *libraries)))
        parser.exit()


def find_version(package: str) -> str:
    """Return the version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


class HelpFormatter(argparse.HelpFormatter):
    """Appends the default of an option to its help text unless already stated there."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text, default = action.help, action.default
        hidden = default is None or default is False or default in ([], argparse.SUPPRESS)
        if not text or "(default: " in text or hidden:
            return text
        values = default if isinstance(default, list) else [default]
        return f"{text} (default: {' '.join(map(str, values))})"


def add_commands(commands: Any, modules: Iterable[Any]) -> None:
    """Add a command per module, named after it, to argparse's subparsers.

    A module defines add_options(parser) and run(args); its docstring is the command's description,
    and its first line is the help text. A module that only groups subcommands has no `run`.
    """
    for module in modules:
        name = module.__name__.rpartition(".")[2].replace("_", "-")
        text = module.__doc__ or name  # python -OO drops docstrings
        parser = commands.add_parser(
            name, help=summary(text), description=text, formatter_class=HelpFormatter
        )
        module.add_options(parser)
        if hasattr(module, "run"):
            parser.set_defaults(run=module.run)


def summary(docstring: str) -> str:
    """Return the first line of a docstring as the help text of a command."""
    return docstring[0].lower() + docstring[1:].partition("\n")[0].rstrip(".")
