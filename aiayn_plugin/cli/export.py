"""Export a model to CTranslate2.

CTranslate2 (pip install ctranslate2) is a fast inference engine for CPUs. The exported model reads
and writes subwords; its length penalty is fairseq's.
"""

import argparse
from pathlib import Path

from ..atomic import write_directory_atomically
from ..checkpoints.export import QUANTIZATIONS, build_specification, import_ctranslate2
from ..inference.run_directory import RunDirectory
from ..text.pipeline import TextPipeline
from .options import add_model


def add_options(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add = parser.add_argument
    add("--output", metavar="DIR", type=Path, required=True, help="directory to create")
    type_help = "type of the stored weights"
    add("--quantization", choices=QUANTIZATIONS, default="float32", help=type_help)


def run(args: argparse.Namespace) -> None:
    """Create the directory atomically.

    Raises InputError or OSError if the model cannot be exported or the directory exists.
    """
    import_ctranslate2()
    loaded = RunDirectory.open(args.model, TextPipeline.load).load_model("cpu")
    transformer = build_specification(loaded.model, loaded.source.symbols, loaded.target.symbols)
    transformer.validate()
    transformer.optimize(quantization=args.quantization)
    with write_directory_atomically(args.output) as directory:
        transformer.save(str(directory))
    positions = transformer.decoder.position_encodings.encodings.shape[0]
    print(
        f"{args.output} holds the model in {args.quantization}, with {positions:,} positions; "
        "CTranslate2 truncates a source at its max_input_length (default: 1,024)"
    )
