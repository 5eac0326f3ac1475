"""§6.1 Scores of a translated set: the hypotheses of fairseq-generate as text, and their BLEU."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sacrebleu.metrics import BLEU

#: A line of fairseq-generate's output: the best hypothesis of a sentence comes first.
HYPOTHESIS = re.compile(r"H-(\d+)\t[^\t]*\t(.*)")


def hypotheses(log: Iterable[str]) -> list[str]:
    """The best hypothesis of each sentence, as subwords, in the order of the set.

    Raises ValueError where sentences are missing from the log of fairseq-generate.
    """
    best: dict[int, str] = {}
    for line in log:
        if match := HYPOTHESIS.fullmatch(line.rstrip("\n")):
            best.setdefault(int(match[1]), match[2])
    missing = [number for number in range(max(best, default=0) + 1) if number not in best]
    if missing:
        raise ValueError(f"the log has no hypothesis for sentence {missing[0]} (H-{missing[0]})")
    return [best[number] for number in sorted(best)]


@dataclass(frozen=True)
class Scores:
    """Of detokenised text against one raw reference."""

    bleu: float
    signature: str
    exact: float  #: fraction of sentences that equal their reference
    sentences: int


def score(system: list[str], references: list[str]) -> Scores:
    """sacreBLEU (case-sensitive, 13a) and the exact-match rate. Raises ValueError for lists of
    different length."""
    if len(system) != len(references):
        raise ValueError(f"{len(system)} hypotheses, but {len(references)} references")
    metric = BLEU()
    bleu = metric.corpus_score(system, [references]).score
    equal = sum(ours == theirs for ours, theirs in zip(system, references, strict=True))
    return Scores(bleu, str(metric.get_signature()), equal / len(system), len(system))
