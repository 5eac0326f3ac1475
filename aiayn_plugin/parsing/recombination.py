"""Recombined trees, to train a parser on few gold trees (Jia and Liang, 2016, arXiv 1606.03622)."""

import random
from collections import defaultdict
from collections.abc import Iterable

from .trees import Tree, is_preterminal

#: The probability that a constituent is exchanged, and the number of candidates to replace it.
PROBABILITY, CANDIDATES = 0.15, 4
#: The depth in the tree down to which constituents are exchanged: it bounds the tree's growth.
MAX_DEPTH = 50


class Recombiner:
    """Exchanges constituents of trees for constituents of other trees that have the same label.

    For example, (NP a dog) in (S (NP Ann) (VP saw (NP a dog))) may become (NP an old car). Of
    CANDIDATES random constituents, the closest in number of words is used.
    """

    def __init__(self, trees: Iterable[Tree]) -> None:
        self.random = random.Random(1)
        self.constituents = defaultdict[str, list[tuple[int, Tree]]](list)
        for tree in trees:
            for part in tree.subtrees():
                if part is not tree and not is_preterminal(part):
                    self.constituents[part.label()].append((len(part.leaves()), part))

    def recombine(self, tree: Tree, depth: int = 1) -> Tree:
        """Return a copy of a tree with exchanged constituents, even inside exchanged ones.

        depth: the number of brackets around its children. The outermost label is kept.
        """
        if is_preterminal(tree):
            return tree
        children = []
        for child in tree:
            if not is_preterminal(child) and depth <= MAX_DEPTH:
                if self.random.random() < PROBABILITY:
                    child = self._similar(child)
            children.append(self.recombine(child, depth + 1))
        return Tree(tree.label(), children)

    def _similar(self, constituent: Tree) -> Tree:
        """Return a random constituent with the same label and about the same length."""
        length = len(constituent.leaves())
        candidates = self.random.choices(self.constituents[constituent.label()], k=CANDIDATES)
        return min(candidates, key=lambda candidate: abs(candidate[0] - length))[1]
