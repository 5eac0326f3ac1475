"""`aiayn bundle`: a model directory that can be copied to another machine."""

import argparse
from pathlib import Path

from ..checkpoints.bundle import MODEL_FILE, bundle

HELP = "make a model directory to copy to another machine"
DESCRIPTION = (
    "Put the model without the optimiser's state, dictionaries, codes and text "
    "settings into one directory, which aiayn translate or aiayn parse takes."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn bundle`."""
    parser.add_argument(
        "model", metavar="MODEL_DIR", type=Path, help="what a recipe of examples/ leaves behind"
    )
    parser.add_argument(
        "--checkpoint",
        metavar="FILE",
        type=Path,
        default=None,
        help=f"default: MODEL_DIR/{MODEL_FILE}",
    )
    parser.add_argument(
        "--output", metavar="DIR", type=Path, required=True, help="the new directory"
    )


def run(args: argparse.Namespace) -> None:
    """Make the directory, whole or not at all. Raises what `bundle` raises."""
    size = bundle(args.model, args.checkpoint, args.output)
    print(f"{args.output}: {size / 1e6:.1f} MB")
