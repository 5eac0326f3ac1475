"""§6.3, Table 4: labelled bracketing F1 by the conventions of EVALB with COLLINS.prm.

The outer bracket (TOP) and punctuation do not count, and PRT counts as ADVP. EVALB removes
punctuation from each tree by that tree's own tags, and skips a sentence if the remaining lengths
differ. Here the gold tags decide for both trees, so each sentence has a score; it equals EVALB's
wherever EVALB has one.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..errors import InputError
from .trees import ROOTS, Tree, category, is_preterminal, tree_words

#: Tags of words that are not counted.
PUNCTUATION = (",", ":", "``", "''", ".", "-NONE-")
EQUIVALENT_LABELS = {"PRT": "ADVP"}
#: Words of the longest sentence that counts as short.
MAX_SHORT_WORDS = 40


@dataclass(frozen=True)
class BracketCounts:
    """Brackets and tags of a sentence, or sums over many."""

    matched: int = 0
    gold: int = 0
    system: int = 0
    tags: int = 0  #: correct tags
    words: int = 0  #: excluding punctuation
    exact: int = 0  #: sentences whose brackets all match the gold tree
    sentences: int = 0

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
    """Return the counts of one sentence. Raises InputError if the words differ."""
    words, gold_words = tree_words(system), tree_words(gold)
    if words != gold_words:
        raise InputError(
            f"the words differ from the gold tree's: {' '.join(words)[:80]!r} instead of "
            f"{' '.join(gold_words)[:80]!r}"
        )
    gold_tags, tags = ([tag for _, tag in tree.pos()] for tree in (gold, system))
    is_counted = [tag not in PUNCTUATION for tag in gold_tags]
    expected, actual = (Counter(brackets(tree, is_counted)) for tree in (gold, system))
    pairs = zip(gold_tags, tags, is_counted, strict=True)
    return BracketCounts(
        matched=(expected & actual).total(),
        gold=expected.total(),
        system=actual.total(),
        tags=sum(counted and gold_tag == tag for gold_tag, tag, counted in pairs),
        words=sum(is_counted),
        exact=int(expected == actual),
        sentences=1,
    )


def brackets(tree: Tree, is_counted: Sequence[bool]) -> list[tuple[str, int, int]]:
    """Return label, start and end of each constituent that counts.

    is_counted: for each word; positions are those among the counted words, and a constituent
    without a counted word does not count. For example, (S (NP (NNS dogs)) (VP (VBP bark)) (. .))
    has (S, 0, 2), (NP, 0, 1) and (VP, 1, 2).
    """
    result: list[tuple[str, int, int]] = []
    word = position = 0

    def walk(constituent: Tree) -> None:
        nonlocal word, position
        if is_preterminal(constituent):
            position += is_counted[word]
            word += 1
            return
        index, start = len(result), position
        for child in constituent:
            walk(child)
        label = category(constituent.label())
        if position > start and label not in (*ROOTS, *PUNCTUATION):
            result.insert(index, (EQUIVALENT_LABELS.get(label, label), start, position))

    walk(tree)
    return result


def compare_all(pairs: Iterable[tuple[Tree, Tree]]) -> tuple[BracketCounts, BracketCounts]:
    """Return the counts of all sentences, and of those with up to MAX_SHORT_WORDS words.

    pairs: gold tree and system tree of each sentence. Raises InputError, with the sentence's
    number, if the words of a pair differ.
    """
    total = short = BracketCounts()
    for number, (gold, system) in enumerate(pairs, start=1):
        try:
            counts = compare_trees(gold, system)
        except InputError as error:
            raise InputError(f"sentence {number}: {error}") from None
        total += counts
        if sum(tag != "-NONE-" for _, tag in gold.pos()) <= MAX_SHORT_WORDS:
            short += counts
    return total, short
