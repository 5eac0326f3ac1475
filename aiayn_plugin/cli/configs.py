"""`aiayn configs`: where the configurations for fairseq-hydra-train are."""

import argparse

from ..fairseq_plugin.hydra import DIRECTORY

HELP = "print the directory of the configurations for fairseq-hydra-train"
DESCRIPTION = (
    'fairseq-hydra-train --config-dir "$(aiayn configs)" --config-name aiayn_base '
    "task.data=/path/to/data"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def run(args: argparse.Namespace) -> None:
    """Print the directory."""
    print(DIRECTORY)
