"""§6.3, Table 4: what fairseq-generate printed, or files of trees, to labelled F1."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nltk import Tree

from ..errors import InputError
from ..text.manifest import read_manifest, verify_files
from ..text.scores import hypotheses
from .f1 import SHORT, Count, score
from .linearisation import sequence
from .pipeline import ParsingPipeline, read_tree
from .trees import cleaned, read_trees, words

#: A target in the output of fairseq-generate.
TARGET = re.compile(r"T-(\d{1,18})\t(.*)\n?")


@dataclass(frozen=True)
class TreeScores:
    """The trees of a system and their counts against the gold ones, all and the short ones."""

    system: list[Tree]
    gold: list[Tree]
    all: Count
    short: Count  #: of sentences of up to SHORT words
    #: For each tree how many mends made it well-formed; none for trees that were read as such.
    mends: list[int]

    def numbers(self) -> dict[str, Any]:
        """Return all counts and scores, as plain data."""
        return {
            **{
                name: {
                    **vars(count),
                    "precision": count.precision,
                    "recall": count.recall,
                    "f1": count.f1,
                }
                for name, count in (("all", self.all), ("short", self.short))
            },
            "mends": self.mends,
        }

    def lines(self) -> list[str]:
        """Return a line for each score, with its name and its use."""
        found, short = self.all, self.short
        lines = [
            f"F1           {100 * found.f1:.2f}   labelled brackets, to compare with Table 4 "
            "(counted as EVALB does with COLLINS.prm)",
            f"precision    {100 * found.precision:.2f}   recall {100 * found.recall:.2f}",
            f"F1 short     {100 * short.f1:.2f}   of the {short.sentences:,} sentences of up to "
            f"{SHORT} words",
            f"exact match  {found.exact / found.sentences:.1%}   ({found.sentences:,} sentences)",
            f"tags         {found.tags / max(1, found.words):.1%}   of {found.words:,} words",
        ]
        if self.mends:
            mended = sum(number > 0 for number in self.mends)
            lines.append(
                f"mended       {mended:,} of {len(self.mends):,} trees, by "
                f"{sum(self.mends):,} mends, to be well-formed"
            )
        return lines


def of_log(log: Path, data: Path, split: str) -> TreeScores:
    """Return the scores of what fairseq-generate printed, against the trees kept in `data`.

    Raises InputError or OSError for a log or data that cannot be used.
    """
    pipeline = ParsingPipeline.load(data)
    raw = f"{split}.raw.{pipeline.settings.target_lang}"
    verify_files(data, read_manifest(data), [raw], contents=False)
    with open(log, encoding="utf-8", newline="\n") as lines:
        symbols = hypotheses(lines)
    with open(log, encoding="utf-8", newline="\n") as lines:
        targets = {int(match[1]): match[2] for match in map(TARGET.fullmatch, lines) if match}
    gold = list(_trees(data / raw))
    other = next(
        (n for n, tree in enumerate(gold) if not _same(targets.get(n, "<unk>"), sequence(tree))),
        None,
    )
    if len(symbols) != len(gold) or other is not None:
        which = "" if other is None else f", and sentence {other + 1} is another"
        raise InputError(
            f"{log} has {len(symbols):,} hypotheses, and {data / raw} {len(gold):,} "
            f"trees{which}: give the split that was parsed with --split"
        )
    found = [read_tree(line, tree.leaves()) for line, tree in zip(symbols, gold, strict=True)]
    return _scores(gold, [tree for tree, _ in found], [mends for _, mends in found])


def of_files(gold: Path, system: Path) -> TreeScores:
    """Return the scores of a file of trees against another.

    Raises InputError or OSError for files that cannot be used, and InputError if the trees differ
    in number or in their words.
    """
    ours, theirs = list(_trees(system)), list(_trees(gold))
    if len(ours) != len(theirs):
        pairs = zip(map(words, ours), map(words, theirs), strict=False)
        first = next(
            (n for n, (a, b) in enumerate(pairs, start=1) if a != b),
            min(len(ours), len(theirs)) + 1,
        )
        raise InputError(
            f"{system} has {len(ours):,} trees, but {gold} {len(theirs):,}: they "
            f"differ from sentence {first} on"
        )
    return _scores(theirs, ours, [])


def _same(symbols: str, wanted: list[str]) -> bool:
    """Whether a target of a log is a tree's; what the dictionary does not know may be anything."""
    found = symbols.split()
    return "<unk>" in symbols or found == wanted


def _trees(path: Path) -> Iterable[Tree]:
    return (tree for tree in map(cleaned, read_trees(path)) if tree is not None)


def _scores(gold: list[Tree], system: list[Tree], mends: list[int]) -> TreeScores:
    if not gold:
        raise InputError("nothing to score: there is no tree")
    counts = score(zip(gold, system, strict=True))
    return TreeScores(system, gold, counts["all"], counts["short"], mends)
