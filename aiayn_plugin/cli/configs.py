"""`aiayn configs`: the configurations for fairseq-hydra-train."""

import argparse

from ..fairseq_plugin.hydra import CONFIG_DIRECTORY

HELP = "print the directory of the configurations for fairseq-hydra-train"
DESCRIPTION = (
    'Usage: fairseq-hydra-train --config-dir "$(aiayn configs)" --config-name aiayn_base '
    "task.data=/path/to/data"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the command has no options."""


def run(args: argparse.Namespace) -> None:
    """Print the directory."""
    print(CONFIG_DIRECTORY)
