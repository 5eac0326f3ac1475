"""§6.3, Table 4: labelled F1 of fairseq-generate's output, or of a file of trees."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..text.generate_log import read_log
from ..text.manifest import verify_files
from .f1 import MAX_SHORT_WORDS, BracketCounts, compare_all, tags_by_position
from .linearisation import linearise_tree
from .pipeline import ParsingPipeline, read_tree
from .trees import Tree, format_tree, read_sentences, tree_words


@dataclass(frozen=True)
class TreeScores:
    """A system's trees, the gold trees, and the counts of their comparison."""

    system: list[Tree]
    gold: list[Tree]
    all: BracketCounts
    short: BracketCounts  #: of sentences of up to MAX_SHORT_WORDS words
    by_gold: BracketCounts  #: of all sentences; the gold tags decide what is punctuation
    skipped: list[str]  #: number and reason of each skipped sentence
    repairs: list[int]  #: for each tree parsed from symbols; empty for trees read from a file

    def as_json(self) -> dict[str, Any]:
        """Return all counts and scores as plain data, and the trees as lines."""
        counts = {
            name: {
                **vars(count),
                "precision": count.precision,
                "recall": count.recall,
                "f1": count.f1,
            }
            for name, count in (
                ("all", self.all),
                ("short", self.short),
                ("by_gold_punctuation", self.by_gold),
            )
        }
        return {
            **counts,
            "repaired": sum(number > 0 for number in self.repairs),
            "sources": [" ".join(tree_words(tree)) for tree in self.gold],
            "references": list(map(format_tree, self.gold)),
            "system": list(map(format_tree, self.system)),
        }

    def lines(self) -> list[str]:
        """Return a line for each score, with its name and what it measures."""
        counts, short = self.all, self.short
        scored = counts.sentences - counts.skipped
        lines = [
            f"F1           {100 * counts.f1:.2f}   labelled brackets, to compare with Table 4 "
            "(computed like EVALB with COLLINS.prm)",
            f"precision    {100 * counts.precision:.2f}   recall {100 * counts.recall:.2f}",
            f"F1 short     {100 * short.f1:.2f}   of the {short.sentences - short.skipped:,} "
            f"scored sentences of up to {MAX_SHORT_WORDS} words",
            f"F1 of all    {100 * self.by_gold.f1:.2f}   of all sentences; the gold tags decide "
            "what is punctuation",
            f"exact match  {counts.exact / max(1, scored):.1%}   of the {scored:,} scored "
            "sentences",
            f"tags         {counts.tags / max(1, counts.words):.1%}   of {counts.words:,} words",
        ]
        ranges = tags_by_position(zip(self.gold, self.system, strict=True))
        if len(ranges) > 1:
            by_word = (f"{first} {correct / words:.1%}" for first, correct, words in ranges)
            lines.append(f"tags by word {', '.join(by_word)}   per ten words, with punctuation")
        if self.skipped:
            lines.append(
                f"skipped      {counts.skipped:,} of {counts.sentences:,} sentences, as EVALB "
                f"does; first {self.skipped[0]}"
            )
        if self.repairs:
            repaired = sum(number > 0 for number in self.repairs)
            lines.append(
                f"repaired     {repaired:,} of {len(self.repairs):,} trees, with "
                f"{sum(self.repairs):,} repairs"
            )
        return lines


def score_log(log: Path, data: Path, split: str) -> TreeScores:
    """Return the scores of fairseq-generate's output against the gold trees in `data`.

    Raises InputError or OSError for an unusable log or data.
    """
    pipeline = ParsingPipeline.load(data)
    raw = f"{split}.raw.{pipeline.settings.target_lang}"
    verify_files(data, [raw], contents=False)
    symbols, targets = read_log(log)
    gold = list(read_sentences(data / raw))
    advice = "give the parsed split with --split"
    for i, tree in enumerate(gold):
        if i in targets and targets[i].split() != linearise_tree(tree):
            raise InputError(f"sentence {i + 1} of {log} is not that of {data / raw}: {advice}")
    if len(symbols) != len(gold):
        raise InputError(
            f"{log} has {len(symbols):,} hypotheses, but {data / raw} has {len(gold):,} trees: "
            f"{advice}"
        )
    parsed = [read_tree(line, tree.leaves()) for line, tree in zip(symbols, gold, strict=True)]
    return _score(gold, [tree for tree, _ in parsed], [repairs for _, repairs in parsed])


def score_files(gold: Path, system: Path) -> TreeScores:
    """Return the scores of a file of trees against a file of gold trees.

    Raises InputError or OSError for unusable files, and InputError if their sentences differ in
    number or are all skipped.
    """
    trees, gold_trees = list(read_sentences(system)), list(read_sentences(gold))
    if len(trees) != len(gold_trees):
        pairs = zip(map(tree_words, trees), map(tree_words, gold_trees), strict=False)
        first = next(
            (number for number, (a, b) in enumerate(pairs, start=1) if a != b),
            min(len(trees), len(gold_trees)) + 1,
        )
        raise InputError(
            f"{system} has {len(trees):,} sentences, but {gold} has {len(gold_trees):,}: they "
            f"differ from sentence {first} on"
        )
    scores = _score(gold_trees, trees, [])
    if scores.all.skipped == scores.all.sentences:
        raise InputError(f"no sentence can be scored: {scores.skipped[0]}")
    return scores


def _score(gold: list[Tree], system: list[Tree], repairs: list[int]) -> TreeScores:
    if not gold:
        raise InputError("there are no trees to score")
    total, short, by_gold, skipped = compare_all(zip(gold, system, strict=True))
    return TreeScores(system, gold, total, short, by_gold, skipped, repairs)
