"""`aiayn benchmark`: each comparison measures both sides in one run."""

import argparse

from ..benchmarks import attention, train, translate
from . import add_commands

HELP = "measure speed and memory"
DESCRIPTION = None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the benchmarks."""
    benchmarks = parser.add_subparsers(title="benchmarks", required=True, metavar="WHAT")
    add_commands(benchmarks, (attention, train, translate))
