"""`aiayn attention`: Figures 3 to 5, for sentences and models of one's own."""

import argparse
import sys
from itertools import islice
from pathlib import Path

from .. import plots
from ..atomic import write_file_atomically
from ..attention_page.figure import Choice, attention_figure
from ..attention_page.maps import Sentence, attended, check_length, prepared, sentences
from ..attention_page.page import (
    MOST_PIECES,
    MOST_SENTENCES,
    attention_page,
    check_number,
    check_size,
)
from ..errors import InputError
from ..inference.translator import Translator
from ..model.attention_maps import KINDS
from ..paper import SearchSettings
from ..text.lines import decode_lines, read_lines

#: Options that only a figure has.
OF_FIGURES = ("sentence", "kind", "layer", "heads", "word", "join")

HELP = "show what the heads attend to, as a page or a figure"
DESCRIPTION = (
    "Write one HTML page that shows the attention of every layer and head (Figures 3 to 5). It "
    "opens without a network. The sentences are raw lines from standard input or --input, which "
    "the model translates, or sentences of the prepared data."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn attention`."""
    parser.add_argument(
        "model",
        metavar="MODEL_DIR",
        type=Path,
        help="what a recipe of examples/ leaves behind, or aiayn bundle made",
    )
    parser.add_argument(
        "--input",
        type=Path,
        metavar="FILE",
        default=None,
        help="raw text, a sentence a line (default: standard input)",
    )
    parser.add_argument(
        "--split",
        default=None,
        help="in place of raw text: a split of the prepared data, such as test",
    )
    parser.add_argument(
        "--numbers",
        type=int,
        nargs="+",
        metavar="N",
        default=None,
        help="sentences of --split, from 0 as fairseq-generate counts them (default: 0)",
    )
    parser.add_argument(
        "--reference",
        action="store_true",
        help="the target of --split in place of the model's translation",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE.html",
        default=None,
        help="the page (default: attention.html, if no --figure is asked for)",
    )
    parser.add_argument(
        "--layers",
        type=int,
        nargs="+",
        metavar="L",
        default=None,
        help="layers of the page, from 1 (default: all)",
    )
    parser.add_argument(
        "--beam", type=int, default=SearchSettings.beam, help="default: %(default)s"
    )
    parser.add_argument(
        "--lenpen",
        type=float,
        default=SearchSettings.alpha,
        help="α of GNMT's length penalty (default: %(default)s)",
    )
    parser.add_argument(
        "--device", default=None, help="as torch names it (default: a GPU if there is one)"
    )
    figure = parser.add_argument_group("a figure for a paper, of one layer of one sentence")
    figure.add_argument(
        "--figure",
        type=Path,
        metavar="FILE",
        default=None,
        help=".svg, .pdf or .png; needs matplotlib",
    )
    figure.add_argument(
        "--sentence",
        type=int,
        metavar="N",
        default=None,
        help="which of the sentences above, from 1 (default: 1)",
    )
    figure.add_argument(
        "--kind",
        default=None,
        choices=[k.replace("_", "-") for k in KINDS],
        help="default: encoder, which is its self-attention",
    )
    figure.add_argument(
        "--layer",
        type=int,
        metavar="L",
        default=None,
        help="default: the last but one; the paper shows 5 of 6",
    )
    figure.add_argument(
        "--heads", type=int, nargs="+", metavar="H", default=None, help="from 1 (default: all)"
    )
    figure.add_argument("--word", default=None, help="only the lines of this word on the left")
    figure.add_argument(
        "--join",
        action="store_true",
        default=None,
        help="join subwords into words, as a switch of the page does",
    )


def run(args: argparse.Namespace) -> None:
    """Write the page, the figure, or both.

    Raises InputError or OSError for a model, text or choice that cannot be used.
    """
    check(args)
    translator = Translator.load(args.model, args.device, beam=args.beam, lenpen=args.lenpen)
    with_page = args.output is not None or args.figure is None
    found = _sentences(translator, args, MOST_PIECES if with_page else None)
    number = args.sentence or 1
    if not 1 <= number <= len(found):
        raise InputError(f"--sentence {number}: there are {len(found)}")
    if args.figure is not None:
        of = attended(translator, found[number - 1])
        kind = (args.kind or "encoder").replace("-", "_")
        choice = Choice(kind, args.layer, args.heads, args.word, bool(args.join))
        plots.save(attention_figure(of, translator.pipeline, choice), args.figure)
        print(f"{args.figure}: {args.figure.stat().st_size / 1e3:,.0f} kB")
    if with_page:
        _write_page(translator, found, args)


def check(args: argparse.Namespace) -> None:
    """Raise InputError for options that do not go together, and for names of no file."""
    if ":" in str(args.model) and not args.model.exists():
        raise InputError("the heads of an ensemble cannot be shown together: give one MODEL_DIR")
    if args.figure is None:
        for name in OF_FIGURES:
            if getattr(args, name) is not None:
                raise InputError(f"--{name} goes with --figure; on the page one chooses")
    else:
        plots.check_format(args.figure)
        plots.matplotlib()
    for path in filter(None, (args.figure, args.output)):
        if path.is_dir():
            raise InputError(f"{path} is a directory: give the name of a file in it")
    if args.figure is not None and args.figure == args.output:
        raise InputError("--figure and --output are one file: give two names")
    if args.split is None and (args.reference or args.numbers is not None):
        raise InputError("--reference and --numbers go with --split")
    if args.split is not None and args.input is not None:
        raise InputError("--input and --split are two sources of sentences: give one")


def _sentences(
    translator: Translator, args: argparse.Namespace, most: int | None
) -> list[Sentence]:
    """Return the sentences, of at most so many pieces a side."""
    if args.split is not None:
        numbers = args.numbers if args.numbers is not None else [0]
        check_number(len(numbers))
        names = [f"sentence {number} of {args.split}" for number in numbers]
        found = prepared(translator, args.split, numbers, args.reference)
    else:
        if args.input is None and sys.stdin is None:
            raise InputError("standard input is closed: give --input FILE")
        lines = list(
            islice(
                decode_lines(iter(sys.stdin.buffer.readline, b""), "standard input")
                if args.input is None
                else read_lines(args.input),
                MOST_SENTENCES + 1,
            )
        )
        check_number(len(lines))
        names = [f"line {number}" for number in range(1, len(lines) + 1)]
        found = sentences(translator, lines, most=most)
    for sentence, name in zip(found, names, strict=True):
        check_length(sentence.source_pieces, name, most)
        check_length(sentence.target_pieces, f"the target of {name}", most)
    return found


def _write_page(
    translator: Translator, sentences: list[Sentence], args: argparse.Namespace
) -> None:
    layers = translator.model.encoder.layers
    heads = int(layers[0].self_attention.h)  # type: ignore[arg-type, union-attr]
    check_size(sentences, len(layers if args.layers is None else set(args.layers)), heads)
    found = [attended(translator, sentence, args.layers) for sentence in sentences]
    settings = translator.pipeline.settings
    target = "the given references" if args.reference else "its own translations"
    about = (
        f"{args.model}: {settings.source_lang} to {settings.target_lang}, {len(layers)} "
        f"layers, {heads} heads, with {target}"
    )
    output = args.output or Path("attention.html")
    with write_file_atomically(output) as temporary:
        page = attention_page(found, translator.pipeline, args.model.resolve().name, about)
        temporary.write_text(page, encoding="utf-8")
    print(
        f"{output}: {len(found)} sentence{'s' * (len(found) > 1)}, "
        f"{output.stat().st_size / 1e3:,.0f} kB; open it in a browser"
    )
