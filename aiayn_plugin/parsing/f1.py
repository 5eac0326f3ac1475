"""§6.3, Table 4: labelled bracketing F1, as EVALB computes it with COLLINS.prm.

Constituents labelled TOP and the words with a deleted tag do not count, and PRT equals ADVP. Each
side deletes words by its own tags; a sentence whose remaining words differ is skipped. EVALB stops
at the twelfth such sentence and compares words as they are spelled; this code does neither.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from os.path import commonprefix

from ..errors import InputError
from .trees import TRACE, Tree, is_preterminal, unescape

#: Tags whose words do not count, and labels whose constituents do not.
DELETED_LABELS = ("TOP", TRACE, ",", ":", "``", "''", ".")
EQUIVALENT_LABELS = {"PRT": "ADVP"}
#: Replaces a tag that wrongly marks a word as punctuation.
WRONG_TAG = "?"
#: Maximum number of words in a short sentence.
MAX_SHORT_WORDS = 40


@dataclass(frozen=True)
class BracketCounts:
    """Brackets and tags of a sentence, or sums over many."""

    matched: int = 0
    gold: int = 0
    system: int = 0
    tags: int = 0  #: correct tags
    words: int = 0  #: counted words
    exact: int = 0  #: sentences whose brackets all match the gold tree
    sentences: int = 0  #: including skipped ones
    skipped: int = 0  #: sentences with different or no counted words

    def __add__(self, other: "BracketCounts") -> "BracketCounts":
        return BracketCounts(
            *(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True))
        )

    @property
    def precision(self) -> float:
        """Matched brackets over the system's."""
        return self.matched / self.system if self.system else 0.0

    @property
    def recall(self) -> float:
        """Matched brackets over the gold ones."""
        return self.matched / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        total = self.gold + self.system
        return 2 * self.matched / total if total else 0.0


def compare_trees(gold: Tree, system: Tree) -> BracketCounts:
    """Return the counts of one sentence.

    Raises InputError if EVALB skips the sentence: the counted words differ, or the system
    tree has no counted words.
    """
    (gold_words, gold_tags), (words, tags) = map(_counted_words, (gold, system))
    if not words:
        raise InputError("the tree contains only punctuation")
    if words != gold_words:
        same = len(commonprefix([words, gold_words]))
        raise InputError(
            f"ignoring punctuation as tagged in each tree, word {same + 1} is "
            f"{_excerpt(words[same:])} instead of {_excerpt(gold_words[same:])}"
        )
    expected, actual = count_brackets(gold), count_brackets(system)
    return BracketCounts(
        matched=(expected & actual).total(),
        gold=expected.total(),
        system=actual.total(),
        tags=sum(a == b for a, b in zip(gold_tags, tags, strict=True)),
        words=len(words),
        exact=int(expected == actual),
        sentences=1,
    )


def punctuate_like(gold: Tree, system: Tree) -> Tree:
    """Return the system's tree with exactly the gold tree's punctuation, so that no word differs.

    Words that only the system tags as punctuation get a tag that is always wrong. Raises
    InputError if the trees differ in their number of words.
    """
    result = system.copy(deep=True)
    gold_words, words = (
        [word for word in tree.subtrees(is_preterminal) if word.label() != TRACE]
        for tree in (gold, result)
    )
    if len(gold_words) != len(words):
        raise InputError(f"the tree has {len(words)} words instead of {len(gold_words)}")
    for expected, word in zip(gold_words, words, strict=True):
        if expected.label() in DELETED_LABELS:
            word.set_label(expected.label())
        elif word.label() in DELETED_LABELS:
            word.set_label(WRONG_TAG)
    return result


def _counted_words(tree: Tree) -> tuple[list[str], list[str]]:
    """Return the words that count, in plain spelling, and their tags."""
    counted = [(word, tag) for word, tag in tree.pos() if tag not in DELETED_LABELS]
    return [unescape(word) for word, _ in counted], [_unify(tag) for _, tag in counted]


def _excerpt(words: list[str]) -> str:
    return repr(" ".join(words[:3])[:80]) if words else "missing"


def _unify(label: str) -> str:
    return EQUIVALENT_LABELS.get(label, label)


def count_brackets(tree: Tree) -> Counter[tuple[str, int, int]]:
    """Count the constituents of a tree that are scored, as (label, start, end).

    Positions are those among the counted words, and a constituent without a counted word does not
    count. Labels end at the first - or =, so that -NONE- above words is an empty label, which
    counts. For example, (S (NP (NNS dogs)) (VP (VBP bark)) (. .)) has (S, 0, 2), (NP, 0, 1) and
    (VP, 1, 2).
    """
    brackets = Counter[tuple[str, int, int]]()
    position = 0

    def walk(constituent: Tree) -> None:
        nonlocal position
        if is_preterminal(constituent):
            position += constituent.label() not in DELETED_LABELS
            return
        start = position
        for child in constituent:
            walk(child)
        label = re.split("[-=]", constituent.label())[0]
        if position > start and label not in DELETED_LABELS:
            brackets[_unify(label), start, position] += 1

    walk(tree)
    return brackets


def compare_all(
    pairs: Iterable[tuple[Tree, Tree]],
) -> tuple[BracketCounts, BracketCounts, BracketCounts, list[str]]:
    """Return EVALB's counts of all and of short sentences, and counts that skip no sentence.

    pairs: gold tree and system tree of each sentence. Short sentences have up to MAX_SHORT_WORDS
    words. The third result counts the trees of `punctuate_like`; if the words differ, all brackets
    are wrong. The fourth gives the number and reason of each sentence that EVALB skips.
    """
    total = short = by_gold = BracketCounts()
    skipped = []
    for number, (gold, system) in enumerate(pairs, start=1):
        try:
            counts = compare_trees(gold, system)
        except InputError as error:
            skipped.append(f"sentence {number}: {error}")
            counts = BracketCounts(sentences=1, skipped=1)
        total += counts
        if sum(tag != TRACE for _, tag in gold.pos()) <= MAX_SHORT_WORDS:
            short += counts
        alike = system
        try:
            alike = punctuate_like(gold, system)
            by_gold += compare_trees(gold, alike)
        except InputError:
            expected, actual = (count_brackets(tree).total() for tree in (gold, alike))
            by_gold += BracketCounts(gold=expected, system=actual, sentences=1)
    return total, short, by_gold, skipped


def tags_by_position(pairs: Iterable[tuple[Tree, Tree]]) -> list[tuple[int, int, int]]:
    """Return first word, correct tags and words of each range of ten word positions.

    pairs: gold tree and system tree of each sentence. All words except traces count, punctuation
    too; sentences whose number of words differs are left out. This reveals a parser that loses its
    place in long sentences. For example, (S (NN a) (NN b) (. .)) and (S (NN a) (JJ b) (. .)) give
    (1, 2, 3).
    """
    correct: Counter[int] = Counter()
    words: Counter[int] = Counter()
    for gold, system in pairs:
        tags = [[tag for _, tag in tree.pos() if tag != TRACE] for tree in (gold, system)]
        if len(tags[0]) == len(tags[1]):
            for i, (expected, actual) in enumerate(zip(*tags, strict=True)):
                correct[i // 10] += expected == actual
                words[i // 10] += 1
    return [(i * 10 + 1, correct[i], words[i]) for i in sorted(words)]
