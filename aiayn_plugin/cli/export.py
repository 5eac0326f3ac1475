"""Export a model to CTranslate2 or to Hugging Face's transformers.

CTranslate2 (pip install ctranslate2) is a fast inference engine. The exported model reads
and writes subwords; its length penalty is fairseq's. For transformers, the directory holds a
MarianMTModel, its tokenizer and a model card that shows how to use both.
"""

import argparse
from pathlib import Path

from ..atomic import write_directory_atomically
from ..checkpoints.ctranslate2_model import (
    QUANTIZATIONS,
    build_specification,
    import_ctranslate2,
    max_positions,
)
from ..checkpoints.hugging_face import export_transformers
from ..errors import InputError
from ..inference.run_directory import RunDirectory
from ..text.pipeline import TextPipeline
from .options import add_model


def add_options(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add = parser.add_argument
    add("--output", metavar="DIR", type=Path, required=True, help="directory to create")
    formats = ("ctranslate2", "transformers")
    add("--format", choices=formats, default=formats[0], help="library that loads the directory")
    type_help = (
        "type of the stored weights, for ctranslate2 only; transformers converts when loading"
    )
    add("--quantization", choices=QUANTIZATIONS, default="float32", help=type_help)


def run(args: argparse.Namespace) -> None:
    """Create the directory atomically.

    Raises InputError or OSError if the model cannot be exported or the directory exists.
    """
    is_ctranslate2 = args.format == "ctranslate2"
    if is_ctranslate2:
        import_ctranslate2()
    elif args.quantization != "float32":
        raise InputError("--quantization applies only to --format ctranslate2")
    directory = RunDirectory.open(args.model, TextPipeline.load)
    loaded = directory.load_model("cpu")
    if not is_ctranslate2:
        positions = export_transformers(loaded, directory.checkpoint, directory.data, args.output)
        print(f"{args.output} holds a MarianMTModel of {positions:,} positions: see its README.md")
        return
    transformer = build_specification(loaded.model, loaded.source.symbols, loaded.target.symbols)
    transformer.validate()
    transformer.optimize(quantization=args.quantization)
    with write_directory_atomically(args.output) as output:
        transformer.save(str(output))
    positions = min(map(max_positions, (loaded.model.encoder, loaded.model.decoder)))
    print(
        f"{args.output} holds the model in {args.quantization}, with {positions:,} positions; "
        "CTranslate2 truncates a source at its max_input_length (default: 1,024)"
    )
