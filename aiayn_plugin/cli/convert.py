"""`aiayn convert`: fairseq's published Transformers in the plugin's model, and back."""

import argparse
from pathlib import Path

from ..checkpoints.safe_load import load, save
from ..fairseq_plugin.convert import convert

HELP = "turn a checkpoint of fairseq's transformer into one of the plugin's, or back"
DESCRIPTION = (
    "Reads a checkpoint of fairseq's post-norm transformer family "
    "(transformer_wmt_en_de, transformer_vaswani_wmt_en_de_big, …) and writes the same model "
    "for the plugin; or reads one of the plugin's, with --positions fairseq or learned, and "
    "writes it for fairseq. Dictionaries stay as they are."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn convert`."""
    parser.add_argument("--input", required=True, metavar="FILE", type=Path)
    parser.add_argument("--output", required=True, metavar="FILE", type=Path)


def run(args: argparse.Namespace) -> None:
    """Convert and write. Raises InputError or OSError for what cannot be converted."""
    state, kind = convert(load(args.input))
    save(state, args.output)
    print(f"{args.output} holds a model of {kind}")
