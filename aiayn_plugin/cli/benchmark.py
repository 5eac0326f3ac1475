"""`aiayn benchmark`: measurements, both sides of every ratio in one run."""

import argparse

from ..benchmarks import attention, train, translate
from .commands import add_commands

HELP = "measure speed and memory"
DESCRIPTION = None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be measured."""
    kinds = parser.add_subparsers(title="what to measure", required=True, metavar="WHAT")
    add_commands(kinds, (attention, train, translate))
