"""`aiayn translate`: raw text in, raw text out."""

import argparse
from collections.abc import Callable

from ..inference.translator import Translator
from ..paper import SearchSettings
from . import stream

HELP = "translate raw text"
DESCRIPTION = (
    "Translate raw text from standard input, one sentence per line, with the paper's search. On "
    "a terminal, each line is translated as soon as it is entered."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn translate`."""
    nbest = "translations per line, as: line number ||| translation ||| score (default: 1, plain)"
    stream.add_options(parser, SearchSettings(), nbest)


def run(args: argparse.Namespace) -> None:
    """Translate standard input. Raises InputError or OSError for an unusable model or text."""
    stream.check_options(args)
    search = {"beam": args.beam, "lenpen": args.lenpen, "nbest": args.nbest}
    translator = Translator.load(args.model, args.device, args.precision, args.max_tokens, **search)

    def translate(lines: list[str], first: int, progress: Callable[[int], object]) -> list[str]:
        translated = translator.translate_nbest(lines, first, progress)
        if args.nbest == 1:
            return [nbest[0].text for nbest in translated]
        return [
            f"{number} ||| {translation.text} ||| {translation.score:.4f}"
            for number, nbest in enumerate(translated, start=first)
            for translation in nbest
        ]

    stream.process_lines(args, translate)
