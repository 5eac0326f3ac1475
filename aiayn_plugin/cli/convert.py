"""`aiayn convert`: fairseq's published Transformers to the plugin's model, and back."""

import argparse
from pathlib import Path

from ..checkpoints.safe_load import load, save
from ..fairseq_plugin.convert import convert

HELP = "convert a checkpoint between fairseq's Transformer and the plugin's"
DESCRIPTION = (
    "Read a checkpoint of fairseq's post-norm Transformers (transformer_wmt_en_de, "
    "transformer_vaswani_wmt_en_de_big, …) and write the same model for the plugin; or read one of "
    "the plugin's, with --positions fairseq or learned, and write it for fairseq. The dictionaries "
    "do not change."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn convert`."""
    add = parser.add_argument
    add("--input", required=True, metavar="FILE", type=Path, help="checkpoint to convert")
    add("--output", required=True, metavar="FILE", type=Path, help="converted checkpoint")


def run(args: argparse.Namespace) -> None:
    """Convert a checkpoint. Raises InputError or OSError if it cannot be converted."""
    state, kind = convert(load(args.input))
    save(state, args.output)
    print(f"{args.output} holds a model of {kind}")
