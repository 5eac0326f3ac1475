"""`aiayn export`: a model for CTranslate2."""

import argparse
import shutil
from pathlib import Path
from typing import Any

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


def run(args: argparse.Namespace) -> None:
    """Make the directory, whole or not at all. Raises ValueError or OSError for a model that cannot
    be exported, and for an output that is there already."""
    try:
        import ctranslate2  # noqa: F401
    except ImportError:
        raise ValueError("ctranslate2 is not installed: pip install ctranslate2") from None
    from ..export import specification

    if args.output.exists():
        raise ValueError(f"{args.output}: is there already: give another --output")
    made = specification(Translator.load(args.model, device="cpu").model)
    made.validate()
    made.optimize(quantization=args.quantization)
    aside = args.output.with_name(args.output.name + ".tmp")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    made.save(str(aside))
    aside.rename(args.output)
    print(f"{args.output} holds the model in {args.quantization}")
