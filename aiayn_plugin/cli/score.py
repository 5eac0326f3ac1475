"""`aiayn score`: the scores of fairseq-generate's output, or of plain files."""

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..atomic import write_file_atomically
from ..errors import InputError
from ..text.lines import read_lines
from ..text.scores import MAX_RESAMPLED, Translations, read_translations, resample, score
from ..text.settings import holds_trees

HELP = "score the output of fairseq-generate, or any translation"
DESCRIPTION = (
    "Prints the paper's BLEU, sacreBLEU and chrF, always together. The input is the output of "
    "fairseq-generate with --data, the directory that preprocess/prepare.py created: the "
    "hypotheses become raw text, and the references are the raw ones kept there. Or it is raw "
    "text, one sentence per line, with --reference and --target-lang. Trees get their F1: from "
    "the output of fairseq-generate with the --data of preprocess/trees.py, or from a file with "
    "--trees."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn score`."""
    parser.add_argument(
        "system",
        metavar="FILE",
        type=Path,
        help="output of fairseq-generate, or with --reference raw text",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        default=None,
        help="data directory created by prepare.py, wmt14.py or trees.py",
    )
    parser.add_argument("--split", default="test", help="split of the data (default: %(default)s)")
    parser.add_argument(
        "--reference",
        metavar="FILE",
        type=Path,
        default=None,
        help="raw references, one sentence per line",
    )
    parser.add_argument(
        "--target-lang", "-t", metavar="LANG", default=None, help="language of the raw text"
    )
    parser.add_argument(
        "--trees",
        metavar="GOLD",
        type=Path,
        default=None,
        help="gold trees: FILE holds trees, and their F1 is counted as EVALB does",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        type=Path,
        default=None,
        help="write the detokenised hypotheses to FILE",
    )
    parser.add_argument(
        "--json",
        metavar="FILE",
        type=Path,
        default=None,
        help="write all scores, their bootstrap intervals and the text to FILE, for aiayn report",
    )
    parser.add_argument(
        "--examples",
        metavar="N",
        type=int,
        default=0,
        help="print N sentences with reference and hypothesis (default: %(default)s)",
    )
    parser.add_argument(
        "--min-bleu",
        metavar="X",
        type=float,
        default=0.0,
        help="fail below X sacreBLEU, for use in CI",
    )
    parser.add_argument(
        "--min-exact",
        metavar="X",
        type=float,
        default=0.0,
        help="fail below X percent of exact matches",
    )


def run(args: argparse.Namespace) -> None:
    """Print the scores.

    Raises InputError or OSError for a log or data that cannot be used, and InputError for scores
    below the required minimum.
    """
    if args.trees is not None or (args.data is not None and holds_trees(args.data)):
        score_trees(args)
        return
    text = read_text(args)
    scores = score(text.system, text.references, text.target_lang)
    show(args, text.sources, text.references, text.system, "translation")
    print("\n".join(scores.lines()))
    if args.json is not None:
        chances: dict[str, Any] = {}
        if len(text.system) <= MAX_RESAMPLED:
            chances = resample([text.system], text.references, text.target_lang)
        by_chance = {name: chance._asdict() for name, (chance,) in chances.items()}
        save_json(
            args, "translations", {**asdict(scores), "by_chance": by_chance, **text._asdict()}
        )
    if scores.bleu < args.min_bleu or 100 * scores.exact < args.min_exact:
        raise InputError(f"asked for at least {args.min_bleu} BLEU, {args.min_exact} % exact")


def score_trees(args: argparse.Namespace) -> None:
    """Print the scores of trees. Raises InputError or OSError as `run` does."""
    if args.reference is not None or args.min_bleu or args.min_exact:
        raise InputError(
            "--reference, --min-bleu and --min-exact are for translations, and these are trees"
        )
    if args.trees is not None and args.data is not None:
        raise InputError(
            "give --trees for a file of trees, or --data for the output of fairseq-generate"
        )
    from ..parsing import scores

    found = (
        scores.score_files(args.trees, args.system)
        if args.trees is not None
        else scores.score_log(args.system, args.data, args.split)
    )
    content = found.as_json()
    show(args, [], content["references"], content["system"], "tree")
    print("\n".join(found.lines()))
    if args.json is not None:
        save_json(args, "trees", content)


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


def read_text(args: argparse.Namespace) -> Translations:
    """Return the sources (none for plain text), hypotheses, references and target language."""
    if args.reference is not None:
        if args.data is not None or args.target_lang is None:
            raise InputError("--reference goes with --target-lang, and without --data")
        system, references = (list(read_lines(path)) for path in (args.system, args.reference))
        return Translations([], system, references, args.target_lang)
    if args.data is None:
        raise InputError(
            "give --data for the output of fairseq-generate, or --reference for raw text"
        )
    return read_translations(args.system, args.data, args.split)


def save_json(args: argparse.Namespace, kind: str, content: Mapping[str, Any]) -> None:
    """Write the scores for `aiayn report`."""
    with write_file_atomically(args.json) as temporary:
        record = {"format": 1, "kind": kind, "split": args.split, **content}
        temporary.write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", "utf-8")
