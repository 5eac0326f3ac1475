"""`aiayn export`: a model for CTranslate2."""

import argparse
from pathlib import Path
from typing import Any

from ..checkpoint import written_aside
from ..translator import Translator

QUANTIZATIONS = ("float32", "float16", "bfloat16", "int16", "int8")


def add_parser(commands: Any) -> None:
    """Add `export` to the commands of `aiayn`."""
    parser = commands.add_parser(
        "export",
        help="write a model for CTranslate2",
        description="Write a model directory of CTranslate2 (pip install ctranslate2), a fast "
        "engine for CPUs. It takes and gives subwords; its length penalty is fairseq's.",
    )
    parser.add_argument("model", metavar="MODEL_DIR", type=Path,
                        help="what a recipe of examples/ leaves behind, or aiayn bundle made")
    parser.add_argument("--output", metavar="DIR", type=Path, required=True,
                        help="the new directory")
    parser.add_argument("--quantization", choices=QUANTIZATIONS, default="float32",
                        help="how the weights are stored (default: %(default)s)")
    parser.set_defaults(run=run)


def imported_ctranslate2() -> Any:
    """The library. Raises ValueError where it is not installed."""
    try:
        import ctranslate2
    except ImportError:
        raise ValueError("ctranslate2 is not installed: pip install ctranslate2") from None
    return ctranslate2


def run(args: argparse.Namespace) -> None:
    """Make the directory, whole or not at all. Raises ValueError or OSError for a model that cannot
    be exported, and for an output that is there already."""
    imported_ctranslate2()
    from ..export import specification

    made = specification(Translator.load(args.model, device="cpu").model)
    made.validate()
    made.optimize(quantization=args.quantization)
    with written_aside(args.output) as aside:
        made.save(str(aside))
    rows = made.decoder.position_encodings.encodings.shape[0]
    print(f"{args.output} holds the model in {args.quantization}, with {rows:,} positions; "
          "CTranslate2 cuts a source at its max_input_length, 1,024 unless you give another")
