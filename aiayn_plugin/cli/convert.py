"""Convert a checkpoint between fairseq's Transformer and the plugin's.

A checkpoint of fairseq's post-norm Transformers (transformer_wmt_en_de,
transformer_vaswani_wmt_en_de_big, …) becomes one for the plugin; one of the plugin's, with
--positions fairseq or learned, becomes one for fairseq. The dictionaries do not change.
"""

import argparse
from pathlib import Path

from ..checkpoints.safe_load import load, save
from ..fairseq_plugin.convert import convert


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--input", required=True, metavar="FILE", type=Path, help="checkpoint to convert")
    add("--output", required=True, metavar="FILE", type=Path, help="converted checkpoint")


def run(args: argparse.Namespace) -> None:
    """Convert a checkpoint. Raises InputError or OSError if it cannot be converted."""
    state, kind = convert(load(args.input))
    save(state, args.output)
    print(f"{args.output} holds a model of {kind}")
