"""How a command is put together: a module with HELP, DESCRIPTION, add_options and run."""

from collections.abc import Iterable
from typing import Any


def add_commands(parsers: Any, modules: Iterable[Any]) -> None:
    """Add the command of each module, under the module's name, to the parsers of argparse.

    A module that only adds further commands needs no `run`.
    """
    for module in modules:
        name = module.__name__.rpartition(".")[2]
        parser = parsers.add_parser(name, help=module.HELP, description=module.DESCRIPTION)
        module.add_options(parser)
        if hasattr(module, "run"):
            parser.set_defaults(run=module.run)
