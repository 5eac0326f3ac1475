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
    search = stream.search_options(args)
    translator = Translator.load(
        args.model, args.device, args.precision, args.max_tokens, engine=args.engine, **search
    )
    stream.process_lines(args, translator.translate_nbest, lambda translation: translation.text)
