"""Score the output of fairseq-generate, or any translation.

Prints paper BLEU, sacreBLEU, chrF and exact match. FILE is the output of fairseq-generate, whose
hypotheses are detokenised and compared with the raw references in --data, the directory that aiayn
prepare created; or it is raw text, one sentence per line, with --reference and --target-lang. For
trees, prints F1: FILE is the output of fairseq-generate, with the --data that aiayn prepare-trees
created, or a file of trees, with --trees.
"""

import argparse
import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from ..atomic import write_file_atomically
from ..errors import InputError
from ..text.generate_log import Translations, read_translations
from ..text.lines import escape_unprintable, read_lines
from ..text.scores import MAX_RESAMPLED, resample, score
from ..text.settings import holds_trees


def add_options(parser: argparse.ArgumentParser) -> None:
    add, add_path = parser.add_argument, partial(parser.add_argument, metavar="FILE", type=Path)
    add_path(
        "system",
        help="output of fairseq-generate, or raw text with --reference, or trees with --trees",
    )
    data_help = "data directory created by aiayn prepare, prepare-trees or wmt14"
    add_path("--data", metavar="DIR", help=data_help)
    add("--split", default="test", help="split that was translated")
    add_path("--reference", help="raw references, one sentence per line")
    target_help = "language of the raw text (default: the target language of --data)"
    add("--target-lang", "-t", metavar="LANG", help=target_help)
    trees_help = "gold trees, if FILE holds trees; F1 is computed as in EVALB"
    add_path("--trees", metavar="GOLD", help=trees_help)
    add_path("--output", help="write the detokenised hypotheses, or the trees, to FILE")
    add_path("--json", help="write scores, bootstrap intervals and text to FILE, for aiayn report")
    examples_help = "print N sentences with reference and hypothesis"
    add("--examples", metavar="N", type=int, default=0, help=examples_help)


def run(args: argparse.Namespace) -> None:
    """Print the scores. Raises InputError or OSError for a log or data that cannot be used."""
    if args.examples < 0:
        raise InputError("--examples must be at least 0")
    if args.output is not None and args.output == args.json:
        raise InputError(f"--output and --json are the same file, {args.json}")
    is_tree = args.trees is not None or (args.data is not None and holds_trees(args.data))
    scores, content = _score_trees(args) if is_tree else _score_translations(args)
    kind, system = "tree" if is_tree else "translation", content["system"]
    if args.output is not None:
        with write_file_atomically(args.output) as temporary:
            temporary.write_text("".join(f"{line}\n" for line in system), encoding="utf-8")
    step = max(1, len(system) // max(1, args.examples))
    for number in range(0, len(system), step)[: args.examples]:
        if not is_tree and content["sources"]:
            print(f"source      {escape_unprintable(content['sources'][number])}")
        print(f"reference   {escape_unprintable(content['references'][number])}")
        print(f"{kind:<11} {escape_unprintable(system[number])}\n")
    print("\n".join(scores.lines()))
    if args.json is not None:
        if not is_tree:
            content = {**asdict(scores), "bootstrap": _bootstrap(content), **content}
        record = {"format": 1, "kind": f"{kind}s", "split": args.data and args.split, **content}
        with write_file_atomically(args.json) as temporary:
            temporary.write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", "utf-8")


def _score_translations(args: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """Return the scores of translations, and their text."""
    text = _read_text(args)
    return score(text.system, text.references, text.target_lang), text._asdict()


def _bootstrap(text: dict[str, Any]) -> dict[str, Any]:
    """Return the bootstrap interval of each BLEU; empty if there are too many sentences."""
    if len(text["system"]) > MAX_RESAMPLED:
        return {}
    bootstraps = resample([text["system"]], text["references"], text["target_lang"])
    return {name: result._asdict() for name, (result,) in bootstraps.items()}


def _score_trees(args: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """Return the scores of trees, and what --json writes."""
    if args.reference is not None:
        raise InputError("--reference is for translations, but these are trees")
    if args.trees is not None and args.data is not None:
        raise InputError(
            "give --trees for a file of trees, or --data for the output of fairseq-generate"
        )
    from ..parsing.scores import score_files, score_log

    if args.trees is not None:
        scores = score_files(args.trees, args.system)
    else:
        scores = score_log(args.system, args.data, args.split)
    return scores, scores.as_json()


def _read_text(args: argparse.Namespace) -> Translations:
    """Return the sources (none for plain text), hypotheses, references and target language."""
    if args.reference is not None:
        if args.data is not None or args.target_lang is None:
            raise InputError(
                "--reference needs --target-lang, such as --target-lang de, and excludes --data"
            )
        system, references = (list(read_lines(path)) for path in (args.system, args.reference))
        return Translations([], system, references, args.target_lang)
    if args.data is None:
        raise InputError(
            "give --data for the output of fairseq-generate, or --reference for raw text"
        )
    return read_translations(args.system, args.data, args.split, args.target_lang)
