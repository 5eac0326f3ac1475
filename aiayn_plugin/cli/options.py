"""Options that several commands share."""

import argparse
from pathlib import Path

from ..errors import InputError
from ..inference.run_directory import ENGINES, PRECISIONS
from ..paper import SearchSettings


def add_model(parser: argparse.ArgumentParser, translates: bool = True) -> None:
    """Add the run directory; translates: whether the packaged model can replace it."""
    help = "run directory (model.pt and data/) or bundle"
    if translates:
        help += (
            "; or demo, the small model in the package, which translates dates, times and amounts"
        )
    parser.add_argument("model", metavar="MODEL_DIR", type=Path, help=help)


def add_search(parser: argparse.ArgumentParser, defaults: SearchSettings) -> None:
    """Add the beam size, the length penalty, the device and the directory of the user's models."""
    add = parser.add_argument
    add("--beam", type=int, default=defaults.beam, help="beam size")
    add("--lenpen", type=float, default=defaults.lenpen, help="exponent α of GNMT's length penalty")
    add("--device", help="torch device (default: the first GPU, or the CPU; for int8 the CPU)")
    user_dir_help = "directory whose code registers the model's class, as for fairseq-train"
    add("--user-dir", metavar="DIR", type=Path, help=user_dir_help)


def add_batching(parser: argparse.ArgumentParser) -> None:
    """Add the batch size and the precision of inference."""
    add = parser.add_argument
    add("--max-tokens", metavar="N", type=int, default=2000, help="source tokens per batch")
    precisions = sorted(PRECISIONS)
    precision_help = "precision of the model; int8: of its linear layers only, on the CPU"
    add("--precision", choices=precisions, default="float32", help=precision_help)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add the choice of the library that searches."""
    engine_help = (
        "library to search with; ctranslate2 (pip install ctranslate2) runs on the CPU, is faster "
        "for single sentences on some processors, and ends a search as fairseq does"
    )
    parser.add_argument("--engine", choices=ENGINES, default="torch", help=engine_help)


def check_positive(args: argparse.Namespace, *names: str) -> None:
    """Raise InputError for options that are below 1."""
    for name in names:
        if (value := getattr(args, name)) < 1:
            raise InputError(f"--{name.replace('_', '-')} {value} must be at least 1")
