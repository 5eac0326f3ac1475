"""Recombined trees."""

from nltk import Tree

from aiayn_plugin.parsing.recombination import PROBABILITY, Recombiner
from aiayn_plugin.parsing.trees import is_preterminal

TREES = [
    Tree.fromstring(f"(S (NP (DT the) (NN {noun})) (VP (VBD saw) {thing}))")
    for noun, thing in {
        "dog": "(NP (NNP Ann))",
        "cat": "(NP (NP (DT a) (NN car)) (PP (IN in) (NP (NNP Rome))))",
        "cow": "(SBAR (IN that) (S (NP (PRP it)) (VP (VBD rained))))",
    }.items()
]


def constituents(tree):
    """Return the constituents of a tree: the label, and the labels or words below it."""
    return [
        (part.label(), *(x if isinstance(x, str) else x.label() for x in part))
        for part in tree.subtrees()
    ]


def test_recombined_trees_consist_of_the_constituents_of_all_trees():
    recombiner = Recombiner(TREES)
    copies = [[recombiner.recombine(tree) for _ in range(200)] for tree in TREES]
    known = {constituent for tree in TREES for constituent in constituents(tree)}
    for tree, of_tree in zip(TREES, copies, strict=True):
        assert all(constituents(copy)[0] == constituents(tree)[0] for copy in of_tree)
        assert known.issuperset(part for copy in of_tree for part in constituents(copy))
        assert len({str(copy) for copy in of_tree}) > 5
        unchanged = sum(copy == tree for copy in of_tree) / len(of_tree)
        exchangeable = sum(not is_preterminal(part) for part in tree.subtrees()) - 1
        assert unchanged > (1 - PROBABILITY) ** exchangeable - 0.1
    assert str(copies[0][0]) == str(Recombiner(TREES).recombine(TREES[0])), "the seed is fixed"


def test_the_candidate_closest_in_length_is_taken():
    short, long = ("(NP (NN a))", "(NP" + 9 * " (NN b)" + ")")
    trees = [Tree.fromstring(f"(S {part})") for part in [short, long] * 5]
    recombiner = Recombiner(trees)
    lengths = [len(recombiner.recombine(trees[0]).leaves()) for _ in range(400)]
    # All of 4 candidates are long with probability 1/16, and one of them is drawn with 0.15.
    assert 0 < lengths.count(9) / len(lengths) < 0.03


def test_trees_stay_finite():
    chain = Tree.fromstring("(S " + 150 * "(NP " + "(NN a)" + 150 * ")" + ")")
    recombiner = Recombiner([chain])
    heights = [recombiner.recombine(chain).height() for _ in range(20)]
    assert max(heights) <= 50 + chain.height()
