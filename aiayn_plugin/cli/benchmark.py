"""Measure speed and memory."""

import argparse

from ..benchmarks import attention, growth, train, translate
from . import add_commands


def add_options(parser: argparse.ArgumentParser) -> None:
    benchmarks = parser.add_subparsers(title="benchmarks", required=True, metavar="WHAT")
    add_commands(benchmarks, (attention, growth, train, translate))
