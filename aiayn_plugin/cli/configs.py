"""`aiayn configs`: where the configurations for fairseq-hydra-train are."""

import argparse
from typing import Any

from ..boundary.hydra import DIRECTORY


def add_parser(commands: Any) -> None:
    """Add `configs` to the commands of `aiayn`."""
    parser = commands.add_parser(
        "configs",
        help="print the directory of the configurations for fairseq-hydra-train",
        description='fairseq-hydra-train --config-dir "$(aiayn configs)" --config-name aiayn_base '
        "task.data=/path/to/data",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the directory."""
    print(DIRECTORY)
