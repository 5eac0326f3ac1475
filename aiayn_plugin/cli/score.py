"""`aiayn score`: from the log of fairseq-generate to detokenised text and its scores."""

import argparse
import os
from pathlib import Path
from typing import Any

from ..scoring import hypotheses, score
from ..text import TextPipeline, read_lines


def add_parser(commands: Any) -> None:
    """Add `score` to the commands of `aiayn`."""
    parser = commands.add_parser(
        "score",
        help="detokenise and score what fairseq-generate translated",
        description="Turn the hypotheses in a log of fairseq-generate into raw text, and compare "
        "it with the raw references that preprocess/prepare.py keeps beside the data.",
    )
    parser.add_argument("log", metavar="LOG", type=Path, help="what fairseq-generate printed")
    parser.add_argument("--data", metavar="DIR", type=Path, required=True,
                        help="directory made by preprocess/prepare.py")
    parser.add_argument("--split", default="test", help="default: %(default)s")
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
    pipeline = TextPipeline.load(args.data)
    source, target = pipeline.settings.source_lang, pipeline.settings.target_lang
    references = list(read_lines(args.data / f"{args.split}.raw.{target}"))
    with open(args.log, encoding="utf-8", newline="\n") as log:
        system = [pipeline.decode(line) for line in hypotheses(log)]
    result = score(system, references)
    if args.output is not None:
        aside = args.output.with_name(args.output.name + ".tmp")
        aside.write_text("".join(f"{line}\n" for line in system), encoding="utf-8")
        os.replace(aside, args.output)
    sources = list(read_lines(args.data / f"{args.split}.raw.{source}"))
    step = max(1, len(system) // max(1, args.examples))
    for number in range(0, len(system), step)[: args.examples]:
        print(f"source      {sources[number]}")
        print(f"reference   {references[number]}")
        print(f"translation {system[number]}\n")
    print(f"sacreBLEU    {result.bleu:.2f}   ({result.signature})")
    print(f"exact match  {result.exact:.1%}   ({result.sentences:,} sentences)")
    if result.bleu < args.min_bleu or 100 * result.exact < args.min_exact:
        raise ValueError(f"asked for at least {args.min_bleu} BLEU, {args.min_exact} % exact")
