"""`aiayn export`: a model for CTranslate2."""

import argparse
from pathlib import Path

from ..atomic import write_directory_atomically
from ..checkpoints.export import QUANTIZATIONS, imported_ctranslate2, specification
from ..inference.run_directory import load
from ..text.pipeline import TextPipeline

HELP = "write a model for CTranslate2"
DESCRIPTION = (
    "Write a model directory of CTranslate2 (pip install ctranslate2), a fast "
    "engine for CPUs. It takes and gives subwords; its length penalty is fairseq's."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn export`."""
    parser.add_argument(
        "model",
        metavar="MODEL_DIR",
        type=Path,
        help="what a recipe of examples/ leaves behind, or aiayn bundle made",
    )
    parser.add_argument(
        "--output", metavar="DIR", type=Path, required=True, help="the new directory"
    )
    parser.add_argument(
        "--quantization",
        choices=QUANTIZATIONS,
        default="float32",
        help="how the weights are stored (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> None:
    """Make the directory, whole or not at all.

    Raises InputError or OSError for a model that cannot be exported, and if the output is there
    already.
    """
    imported_ctranslate2()
    found = load(args.model, TextPipeline.load, "cpu", "float32").loaded
    transformer = specification(found.model, found.source.symbols, found.target.symbols)
    transformer.validate()
    transformer.optimize(quantization=args.quantization)
    with write_directory_atomically(args.output) as directory:
        transformer.save(str(directory))
    rows = transformer.decoder.position_encodings.encodings.shape[0]
    print(
        f"{args.output} holds the model in {args.quantization}, with {rows:,} positions; "
        "CTranslate2 cuts a source at its max_input_length, 1,024 unless you give another"
    )
