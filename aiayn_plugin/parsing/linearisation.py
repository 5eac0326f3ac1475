"""§6.3 A tree as a sequence, after "Grammar as a Foreign Language" (Vinyals et al., 2015).

(S (NP (NNP John)) (VP (VBZ sleeps))) is the sequence (S (NP NNP )NP (VP VBZ )VP )S: brackets with
labels, and for each word its tag.
"""

import re
from collections.abc import Sequence

from nltk import Tree

from ..text.settings import MAX_TREE_DEPTH
from .trees import TOP, is_word

#: The tag of a word for which the sequence has none: the most frequent one.
NO_TAG = "NN"


def sequence(tree: Tree) -> list[str]:
    """Return the symbols of a cleaned tree."""
    if is_word(tree):
        return [tree.label()]
    inner = [symbol for part in tree for symbol in sequence(part)]
    return [f"({tree.label()}", *inner, f"){tree.label()}"]


def tree_of(symbols: Sequence[str], words: Sequence[str]) -> tuple[Tree, int]:
    """Return a well-formed tree over exactly these words, and how many mends it took.

    Of a sequence that `sequence` made, it is the tree that the sequence was made of, without a
    mend. A mend is: a bracket closed that the sequence leaves open, a bracket or a tag dropped that
    is one too many, a constituent dropped that has no words, a tag given to a word that has none,
    and TOP put above what has no common bracket. There has to be a word.

    For example, "(S (NP NN )VP" over "dogs bark" is (S (NP (NN dogs) (NN bark))) after four mends:
    )VP has no beginning, "bark" no tag, and two brackets no end.
    """
    if not words:
        raise ValueError("there is no tree without a word")
    open_: list[Tree] = [Tree(TOP, [])]
    left = iter(words)
    mends = read = 0
    for symbol in symbols:
        if re.search(r"[()\s]", symbol[1:]):
            mends += 1
        elif symbol.startswith("(") and len(open_) <= MAX_TREE_DEPTH - 2:
            open_.append(Tree(symbol[1:], []))
        elif symbol.startswith(")") and any(part.label() == symbol[1:] for part in open_[1:]):
            while True:
                done = open_.pop()
                mends += _put(open_[-1], done)
                if done.label() == symbol[1:]:
                    break
                mends += 1  # closed before its time
        elif symbol[0] not in "()" and read < len(words):
            open_[-1].append(Tree(symbol, [next(left)]))
            read += 1
        else:
            mends += 1
    for word in left:
        open_[-1].append(Tree(NO_TAG, [word]))
        mends += 1
    while len(open_) > 1:
        mends += 1 + _put(open_[-2], open_[-1])
        open_.pop()
    top = open_[0]
    if len(top) > 1 or is_word(top[0]):
        return top, mends + 1
    return top[0], mends


def _put(parent: Tree, part: Tree) -> int:
    """Put a closed constituent under its parent, if it has words; return the mends this took."""
    if len(part):
        parent.append(part)
    return int(not len(part))
