"""`aiayn score`: what fairseq-generate printed, or plain files, to text and its scores."""

import argparse
import os
from pathlib import Path
from typing import Any

from ..lines import read_lines
from ..scoring import hypotheses, score
from ..text import TextPipeline


def add_parser(commands: Any) -> None:
    """Add `score` to the commands of `aiayn`."""
    parser = commands.add_parser(
        "score",
        help="score what fairseq-generate translated, or any translation",
        description="The paper's BLEU, sacreBLEU and chrF, always together. The input is a log of "
        "fairseq-generate with --data, the directory that preprocess/prepare.py made: the "
        "hypotheses become raw text, and the references are the raw ones kept there. Or it is raw "
        "text, a sentence a line, with --reference and --target-lang.",
    )
    parser.add_argument("system", metavar="FILE", type=Path,
                        help="what fairseq-generate printed, or with --reference raw text")
    parser.add_argument("--data", metavar="DIR", type=Path, default=None,
                        help="directory made by preprocess/prepare.py")
    parser.add_argument("--split", default="test", help="default: %(default)s")
    parser.add_argument("--reference", metavar="FILE", type=Path, default=None,
                        help="raw references, a sentence a line")
    parser.add_argument("--target-lang", "-t", metavar="LANG", default=None,
                        help="language of the raw text")
    parser.add_argument("--output", metavar="FILE", type=Path, default=None,
                        help="write the detokenised hypotheses there")
    parser.add_argument("--examples", metavar="N", type=int, default=0,
                        help="print N sentences with reference and hypothesis")
    parser.add_argument("--min-bleu", metavar="X", type=float, default=0.0,
                        help="fail below this sacreBLEU, in a check that runs by itself")
    parser.add_argument("--min-exact", metavar="X", type=float, default=0.0,
                        help="fail below this percentage of exact matches")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the scores. Raises ValueError or OSError for a log or data that cannot be used, and
    ValueError for scores below the least that was asked for."""
    sources: list[str] = []
    if args.reference is not None:
        if args.data is not None or args.target_lang is None:
            raise ValueError("--reference goes with --target-lang, and without --data")
        target = args.target_lang
        system, references = list(read_lines(args.system)), list(read_lines(args.reference))
    elif args.data is not None:
        pipeline = TextPipeline.load(args.data)
        target = pipeline.settings.target_lang
        with open(args.system, encoding="utf-8", newline="\n") as log:
            system = [pipeline.decode(line) for line in hypotheses(log)]
        sources, references = (
            list(read_lines(args.data / f"{args.split}.raw.{lang}"))
            for lang in (pipeline.settings.source_lang, target)
        )
    else:
        raise ValueError("give --data for a log of fairseq-generate, or --reference for raw text")
    result = score(system, references, target)
    if args.output is not None:
        aside = args.output.with_name(args.output.name + ".tmp")
        aside.write_text("".join(f"{line}\n" for line in system), encoding="utf-8")
        os.replace(aside, args.output)
    step = max(1, len(system) // max(1, args.examples))
    for number in range(0, len(system), step)[: args.examples]:
        if sources:
            print(f"source      {sources[number]}")
        print(f"reference   {references[number]}")
        print(f"translation {system[number]}\n")
    print("\n".join(result.lines()))
    if result.bleu < args.min_bleu or 100 * result.exact < args.min_exact:
        raise ValueError(f"asked for at least {args.min_bleu} BLEU, {args.min_exact} % exact")
