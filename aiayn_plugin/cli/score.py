"""`aiayn score`: what fairseq-generate printed, or plain files, to text and its scores."""

import argparse
from pathlib import Path

from ..atomic import write_file_atomically
from ..errors import InputError
from ..text.lines import read_lines
from ..text.scores import Scores, Translations, score, translations
from ..text.settings import holds_trees

HELP = "score what fairseq-generate translated, or any translation"
DESCRIPTION = (
    "The paper's BLEU, sacreBLEU and chrF, always together. The input is a log of "
    "fairseq-generate with --data, the directory that preprocess/prepare.py made: the "
    "hypotheses become raw text, and the references are the raw ones kept there. Or it is raw "
    "text, a sentence a line, with --reference and --target-lang. Trees get their F1: of a log "
    "with the --data that preprocess/trees.py made, or of a file with --trees."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn score`."""
    parser.add_argument(
        "system",
        metavar="FILE",
        type=Path,
        help="what fairseq-generate printed, or with --reference raw text",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        default=None,
        help="directory made by prepare.py, wmt14.py or trees.py",
    )
    parser.add_argument("--split", default="test", help="default: %(default)s")
    parser.add_argument(
        "--reference",
        metavar="FILE",
        type=Path,
        default=None,
        help="raw references, a sentence a line",
    )
    parser.add_argument(
        "--target-lang", "-t", metavar="LANG", default=None, help="language of the raw text"
    )
    parser.add_argument(
        "--trees",
        metavar="GOLD",
        type=Path,
        default=None,
        help="FILE has trees: their F1 against these, counted as EVALB does",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        type=Path,
        default=None,
        help="write the detokenised hypotheses there",
    )
    parser.add_argument(
        "--examples",
        metavar="N",
        type=int,
        default=0,
        help="print N sentences with reference and hypothesis",
    )
    parser.add_argument(
        "--min-bleu",
        metavar="X",
        type=float,
        default=0.0,
        help="fail below this sacreBLEU, in a check that runs by itself",
    )
    parser.add_argument(
        "--min-exact",
        metavar="X",
        type=float,
        default=0.0,
        help="fail below this percentage of exact matches",
    )


def run(args: argparse.Namespace) -> None:
    """Print the scores.

    Raises InputError or OSError for a log or data that cannot be used, and InputError for scores
    below the least that was asked for.
    """
    if args.trees is not None or (args.data is not None and holds_trees(args.data)):
        of_trees(args)
        return
    sources, system, references, target_lang = read(args)
    scores = score(system, references, target_lang)
    show(args, sources, references, system, "translation")
    print("\n".join(scores.lines()))
    check(scores, args)


def of_trees(args: argparse.Namespace) -> None:
    """Print the scores of trees. Raises InputError or OSError as `run` does."""
    if args.reference is not None or args.min_bleu or args.min_exact:
        raise InputError(
            "--reference, --min-bleu and --min-exact are for translations, and these are trees"
        )
    if args.trees is not None and args.data is not None:
        raise InputError(
            "give --trees for a file of trees, or --data for a log of fairseq-generate"
        )
    from ..parsing import scores
    from ..parsing.trees import format_tree

    found = (
        scores.score_files(args.trees, args.system)
        if args.trees is not None
        else scores.score_log(args.system, args.data, args.split)
    )
    gold, system = (list(map(format_tree, trees)) for trees in (found.gold, found.system))
    show(args, [], gold, system, "tree")
    print("\n".join(found.lines()))


def show(
    args: argparse.Namespace,
    sources: list[str],
    references: list[str],
    system: list[str],
    name: str,
) -> None:
    """Write the hypotheses to --output, and print --examples. name: what a hypothesis is."""
    if args.output is not None:
        with write_file_atomically(args.output) as temporary:
            temporary.write_text("".join(f"{line}\n" for line in system), encoding="utf-8")
    step = max(1, len(system) // max(1, args.examples))
    for number in range(0, len(system), step)[: args.examples]:
        if sources:
            print(f"source      {sources[number]}")
        print(f"reference   {references[number]}")
        print(f"{name:<11} {system[number]}\n")


def read(args: argparse.Namespace) -> Translations:
    """Return the sources (none for plain text), hypotheses, references and target language."""
    if args.reference is not None:
        if args.data is not None or args.target_lang is None:
            raise InputError("--reference goes with --target-lang, and without --data")
        system, references = (list(read_lines(path)) for path in (args.system, args.reference))
        return Translations([], system, references, args.target_lang)
    if args.data is None:
        raise InputError("give --data for a log of fairseq-generate, or --reference for raw text")
    return translations(args.system, args.data, args.split)


def check(scores: Scores, args: argparse.Namespace) -> None:
    """Raise InputError for scores below --min-bleu or --min-exact."""
    if scores.bleu < args.min_bleu or 100 * scores.exact < args.min_exact:
        raise InputError(f"asked for at least {args.min_bleu} BLEU, {args.min_exact} % exact")
