"""§6.3 Trees as sequences, after "Grammar as a Foreign Language" (Vinyals et al., 2015).

(S (NP (NNP John)) (VP (VBZ sleeps))) becomes (S (NP NNP )NP (VP VBZ )VP )S: labelled brackets, and
a tag for each word.
"""

import re
from collections import deque
from collections.abc import Sequence

from ..text.settings import MAX_TREE_DEPTH
from .trees import TOP, Tree, is_preterminal

#: The tag of a word whose tag is missing from a sequence: the most frequent one.
DEFAULT_TAG = "NN"


def linearise_tree(tree: Tree) -> list[str]:
    """Return the symbols of a cleaned tree."""
    if is_preterminal(tree):
        return [tree.label()]
    inner = [symbol for child in tree for symbol in linearise_tree(child)]
    return [f"({tree.label()}", *inner, f"){tree.label()}"]


def build_tree(symbols: Sequence[str], words: Sequence[str]) -> tuple[Tree, int]:
    """Return a well-formed tree over exactly these words, and the number of repairs it took.

    This inverts `linearise_tree`, whose output needs no repairs. A repair closes an open bracket,
    drops a superfluous bracket or tag or a constituent without words, adds a missing tag, or puts
    TOP above several constituents. Raises ValueError if there are no words.

    For example, "(S (NP NN )VP" over "dogs bark" gives (S (NP (NN dogs) (NN bark))) and four
    repairs: )VP was never opened, "bark" has no tag, and two brackets are not closed.
    """
    if not words:
        raise ValueError("a tree needs at least one word")
    open_: list[Tree] = [Tree(TOP, [])]
    remaining = deque(words)
    repairs = 0
    for symbol in symbols:
        if re.search(r"[()\s]", symbol[1:]):
            repairs += 1
        elif symbol.startswith("(") and len(open_) <= MAX_TREE_DEPTH - 2:
            open_.append(Tree(symbol[1:], []))
        elif symbol.startswith(")") and any(tree.label() == symbol[1:] for tree in open_[1:]):
            while open_[-1].label() != symbol[1:]:
                repairs += 1 + _close(open_)
            repairs += _close(open_)
        elif symbol[0] not in "()" and remaining:
            open_[-1].append(Tree(symbol, [remaining.popleft()]))
        else:
            repairs += 1
    for word in remaining:
        open_[-1].append(Tree(DEFAULT_TAG, [word]))
        repairs += 1
    while len(open_) > 1:
        repairs += 1 + _close(open_)
    top = open_[0]
    if len(top) > 1 or is_preterminal(top[0]):
        return top, repairs + 1
    return top[0], repairs


def _close(open_: list[Tree]) -> int:
    """Append the innermost constituent to its parent, unless it is empty; return the repairs."""
    constituent = open_.pop()
    if not len(constituent):
        return 1
    open_[-1].append(constituent)
    return 0
