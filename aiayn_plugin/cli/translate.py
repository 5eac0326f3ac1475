"""Translate raw text.

Reads standard input, one sentence per line, and searches as the paper does. On a terminal, each
line is translated as soon as it is entered.
"""

import argparse

from ..inference.translator import Translator
from ..paper import SearchSettings
from . import options, stream


def add_options(parser: argparse.ArgumentParser) -> None:
    stream.add_options(parser, SearchSettings(), "translation")
    options.add_engine(parser)


def run(args: argparse.Namespace) -> None:
    """Translate standard input. Raises InputError or OSError for an unusable model or text."""
    translator = stream.load(Translator, args, engine=args.engine)
    stream.process_lines(args, translator.translate_nbest, lambda translation: translation.text)
