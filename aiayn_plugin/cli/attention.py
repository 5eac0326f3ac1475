"""Show what the heads attend to, as a page or a figure.

Writes one self-contained HTML page with the attention of every layer and head (Figures 3 to 5), or,
with --figure, one layer of the first sentence. The sentences are raw lines from standard input or
--input, which the model translates, or sentences of the prepared data.
"""

import argparse
import sys
from functools import partial
from itertools import islice
from pathlib import Path

from .. import plots
from ..atomic import write_file_atomically
from ..attention_page import page
from ..attention_page.figure import attention_figure
from ..attention_page.maps import Sentence, compute_maps, encode_lines, load_sentences, translate
from ..errors import InputError
from ..html_page import language_pair
from ..inference.translator import Translator
from ..model.attention_maps import ATTENTION_KINDS
from ..paper import SearchSettings
from ..text.lines import decode_lines, escape_unprintable, read_lines
from . import options

FIGURE_OPTIONS = ("kind", "layer", "heads", "word", "join")


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    options.add_search(parser, SearchSettings())
    add = parser.add_argument
    input_help = "raw text, one sentence per line (default: standard input)"
    add("--input", type=Path, metavar="FILE", help=input_help)
    add("--split", help="split of the prepared data to show instead of raw text, such as test")
    add_numbers = partial(add, type=int, nargs="+")
    numbers_help = "sentences of --split, numbered from 0 as in fairseq-generate (default: 0)"
    add_numbers("--numbers", metavar="N", help=numbers_help)
    add("--reference", action="store_true", help="show the target of --split, not a translation")
    output_help = (
        "page to write (default: attention.html in the run directory; demo: working directory)"
    )
    add("--output", type=Path, metavar="FILE.html", help=output_help)
    add_numbers("--layers", metavar="L", help="layers on the page, from 1 (default: all)")
    add = parser.add_argument_group("a figure of one layer, instead of a page").add_argument
    figure_help = "figure to write: .svg (best for non-Latin text), .pdf or .png; needs matplotlib"
    add("--figure", type=Path, metavar="FILE", help=figure_help)
    kinds = [kind.replace("_", "-") for kind in ATTENTION_KINDS]
    add("--kind", choices=kinds, help="kind of attention (default: encoder self-attention)")
    layer_help = "layer to show (default: the second to last; the paper shows 5 of 6)"
    add("--layer", type=int, metavar="L", help=layer_help)
    add("--heads", type=int, nargs="+", metavar="H", help="heads to show, from 1 (default: all)")
    add("--word", help="show only what this word, on the left, attends to (default: all words)")
    join_help = "join subwords into words, like the switch on the page"
    add("--join", action="store_true", default=None, help=join_help)


def run(args: argparse.Namespace) -> None:
    """Write the page or the figure.

    Raises InputError or OSError for an unusable model, text or selection.
    """
    _check_options(args)
    translator = Translator.load(
        args.model, args.device, user_dir=args.user_dir, beam=args.beam, lenpen=args.lenpen
    )
    sentences = _read_sentences(translator, args)
    if args.figure is None:
        _write_page(translator, sentences, args)
    else:
        _write_figure(translator, sentences[0], args)


def _check_options(args: argparse.Namespace) -> None:
    """Raise InputError for conflicting options and for paths that cannot be written."""
    if args.figure is None:
        for name in FIGURE_OPTIONS:
            if getattr(args, name) is not None:
                raise InputError(f"--{name} needs --figure; the page has its own controls")
    else:
        if args.output is not None or args.layers is not None:
            raise InputError("--output and --layers are for a page: omit them, or omit --figure")
        if args.numbers is not None and len(args.numbers) > 1:
            raise InputError("--figure shows one sentence: give one number with --numbers")
        plots.check(args.figure)
    path = args.figure or args.output
    if path is not None and path.is_dir():
        raise InputError(f"{path} is a directory: give a file name")
    if args.split is None and (args.reference or args.numbers is not None):
        raise InputError("--reference and --numbers need --split")
    if args.split is not None and args.input is not None:
        raise InputError("--input and --split are mutually exclusive: give one")


def _read_sentences(translator: Translator, args: argparse.Namespace) -> list[Sentence]:
    """Return the sentences of the page or the figure.

    Raises InputError if there are none, if there are more than a page can show, or if one is too
    long.
    """
    if args.split is not None:
        numbers = args.numbers if args.numbers is not None else [0]
        page.check_count(len(numbers))
        names = [f"sentence {number} of {args.split}" for number in numbers]
        sentences = load_sentences(translator, args.split, numbers, args.reference)
    else:
        if args.input is not None:
            text = read_lines(args.input)
        elif sys.stdin is not None:
            text = decode_lines(sys.stdin.buffer, "standard input")
        else:
            raise InputError("standard input is closed: give --input FILE")
        # One line more than a page can show: check_count then rejects the input.
        lines = list(islice(text, page.MAX_SENTENCES + 1 if args.figure is None else 1))
        page.check_count(len(lines))
        names = [f"line {number}" for number in range(1, len(lines) + 1)]
        sources = encode_lines(translator, lines)
        for source, name in zip(sources, names, strict=True):
            page.check_length(source, name)  # before the search
        sentences = translate(translator, sources)
    for sentence, name in zip(sentences, names, strict=True):
        page.check_length(sentence.source, name)
        page.check_length(sentence.target, f"the target of {name}")
    return sentences


def _write_figure(translator: Translator, sentence: Sentence, args: argparse.Namespace) -> None:
    maps = compute_maps(translator, sentence)
    kind = (args.kind or "encoder").replace("-", "_")
    selection = (kind, args.layer, args.heads, args.word, bool(args.join))
    plots.save(attention_figure(maps, translator.pipeline, *selection), args.figure)
    print(f"{args.figure}: {args.figure.stat().st_size / 1e3:,.0f} kB")


def _write_page(
    translator: Translator, sentences: list[Sentence], args: argparse.Namespace
) -> None:
    layers = translator.model.encoder.layers
    heads = int(layers[0].self_attention.h)  # type: ignore[arg-type, union-attr]
    page.check_size(sentences, len(layers if args.layers is None else set(args.layers)), heads)
    maps = [compute_maps(translator, sentence, args.layers) for sentence in sentences]
    settings = translator.pipeline.settings
    target = "the references" if args.reference else "the model's translations"
    about = (
        f"{escape_unprintable(str(args.model))}: {language_pair(*settings.languages)}, "
        f"{len(layers)} layers, {heads} heads, with {target}"
    )
    name = escape_unprintable(args.model.resolve().name)
    directory = args.model if args.model.is_dir() else Path()  # demo is in the package
    output = args.output or directory / "attention.html"
    html = page.attention_page(maps, translator.pipeline, name, about)
    with write_file_atomically(output) as temporary:
        temporary.write_text(html, encoding="utf-8")
    print(
        f"{output}: {len(maps)} sentence{'s' * (len(maps) > 1)}, "
        f"{output.stat().st_size / 1e3:,.0f} kB; open it in a browser"
    )
