"""§6.3, Table 4: labelled bracketing F1 by the conventions of EVALB with COLLINS.prm.

Brackets above the whole (TOP) and punctuation do not count, and PRT counts as ADVP. EVALB takes the
punctuation out of each tree by that tree's own tags, and gives no score to a sentence in which the
two then differ in length. Here the gold tree says for both which words are punctuation, so that
each sentence has a score; where EVALB has one, it is the same.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nltk import Tree

from ..errors import InputError
from .trees import ROOTS, category, is_word, words

#: Tags of words that do not count.
PUNCTUATION = (",", ":", "``", "''", ".", "-NONE-")
EQUAL = {"PRT": "ADVP"}
#: Words of the longest sentence of the second result.
SHORT = 40


@dataclass(frozen=True)
class Count:
    """Brackets and tags of one sentence, or of many: sums."""

    matched: int = 0
    gold: int = 0
    system: int = 0
    tags: int = 0  #: right ones
    words: int = 0  #: without punctuation
    exact: int = 0  #: sentences with the very brackets of the gold tree
    sentences: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(
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


def count(gold: Tree, system: Tree) -> Count:
    """Return the counts of one sentence. Raises InputError if the words differ."""
    ours, theirs = words(system), words(gold)
    if ours != theirs:
        raise InputError(
            f"other words than the gold tree's: {' '.join(ours)[:80]!r}, not "
            f"{' '.join(theirs)[:80]!r}"
        )
    gold_tags, tags = ([tag for _, tag in tree.pos()] for tree in (gold, system))
    counts = [tag not in PUNCTUATION for tag in gold_tags]
    wanted, found = (Counter(brackets(tree, counts)) for tree in (gold, system))
    right = sum(tag == own for tag, own, does in zip(gold_tags, tags, counts, strict=True) if does)
    return Count(
        sum((wanted & found).values()),
        sum(wanted.values()),
        sum(found.values()),
        right,
        sum(counts),
        int(wanted == found),
        1,
    )


def brackets(tree: Tree, counts: Sequence[bool]) -> list[tuple[str, int, int]]:
    """Return label, start and end of each constituent that counts.

    counts: for each word whether it does; places are among those that do. A constituent without
    such a word does not count. For example, (S (NP (NNS dogs)) (VP (VBP bark)) (. .)) has
    (S, 0, 2), (NP, 0, 1) and (VP, 1, 2).
    """
    found: list[tuple[str, int, int]] = []
    word = place = 0

    def walk(part: Tree) -> None:
        nonlocal word, place
        if is_word(part):
            place += counts[word]
            word += 1
            return
        at, start = len(found), place
        for child in part:
            walk(child)
        label = category(part.label())
        if place > start and label not in (*ROOTS, *PUNCTUATION):
            found.insert(at, (EQUAL.get(label, label), start, place))

    walk(tree)
    return found


def score(pairs: Iterable[tuple[Tree, Tree]]) -> dict[str, Count]:
    """Return the counts of all sentences, "all", and of those with up to SHORT words, "short".

    pairs: the gold tree and the system's of each sentence. Raises InputError, with the sentence's
    number, if its words differ.
    """
    found = {"all": Count(), "short": Count()}
    for number, (gold, system) in enumerate(pairs, start=1):
        try:
            of_sentence = count(gold, system)
        except InputError as error:
            raise InputError(f"sentence {number}: {error}") from None
        found["all"] += of_sentence
        if sum(tag != "-NONE-" for _, tag in gold.pos()) <= SHORT:
            found["short"] += of_sentence
    return found
