"""Pack a run directory for use on another machine.

The bundle holds the model without the optimizer's state, the dictionaries, the merges and the text
settings: the input of aiayn translate, serve, attention, export or parse.
"""

import argparse
from pathlib import Path

import torch

from ..checkpoints.bundle import MODEL_FILE, bundle


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL_DIR", type=Path, help="run directory (model.pt, data/) or bundle")
    checkpoint_help = f"checkpoint to bundle (default: MODEL_DIR/{MODEL_FILE})"
    add("--checkpoint", metavar="FILE", type=Path, help=checkpoint_help)
    precisions = ["float32", "float16"]
    precision_help = "precision of the stored weights"
    add("--precision", choices=precisions, default="float32", help=precision_help)
    examples_help = "file of example sentences for the page of aiayn serve, one per line"
    add("--examples", metavar="FILE", type=Path, help=examples_help)
    add("--output", metavar="DIR", type=Path, required=True, help="directory to create")


def run(args: argparse.Namespace) -> None:
    """Create the directory atomically. Raises what `bundle` raises."""
    dtype = getattr(torch, args.precision)
    size = bundle(args.model, args.checkpoint, args.output, dtype, args.examples)
    print(f"{args.output}: {size / 1e6:.1f} MB")
