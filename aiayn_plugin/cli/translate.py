"""`aiayn translate`: raw text to raw text."""

import argparse
from collections.abc import Callable

from ..inference.translator import Translator
from ..paper import SearchSettings
from . import stream

HELP = "translate raw text"
DESCRIPTION = (
    "Translate raw text from standard input, a sentence a line, with the paper's "
    "search. On a terminal each line is answered at once."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn translate`."""
    nbest = "N translations of each line: line number ||| translation ||| score"
    stream.add_options(parser, SearchSettings(), nbest)


def run(args: argparse.Namespace) -> None:
    """Translate standard input. Raises InputError or OSError for an unusable model or text."""
    stream.check(args)
    translator = Translator.load(
        args.model,
        args.device,
        args.precision,
        args.max_tokens,
        beam=args.beam,
        lenpen=args.lenpen,
        nbest=args.nbest,
    )

    def answer(lines: list[str], first: int, progress: Callable[[int], object]) -> list[str]:
        found = translator.translate_nbest(lines, first, progress)
        if args.nbest == 1:
            return [translations[0].text for translations in found]
        return [
            f"{number} ||| {translation.text} ||| {translation.score:.4f}"
            for number, translations in enumerate(found, start=first)
            for translation in translations
        ]

    stream.stream(args, answer)
