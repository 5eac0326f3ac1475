"""Print the directory of the configurations for fairseq-hydra-train.

Usage: fairseq-hydra-train --config-dir "$(aiayn configs)" --config-name aiayn_base
task.data=/path/to/data
"""

import argparse
from pathlib import Path


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the command has no options."""


def run(args: argparse.Namespace) -> None:
    """Print the directory."""
    print(Path(__file__).resolve().parents[1] / "config")
