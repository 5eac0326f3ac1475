"""§6.3 F1, counted by hand and compared with another implementation."""

import random

import pytest
from compare_pyevalb import compare
from nltk import Tree

from aiayn_plugin.errors import InputError
from aiayn_plugin.parsing.f1 import BracketCounts, brackets, compare_all, compare_trees


def tree(text):
    return Tree.fromstring(text)


GOLD = "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps) (ADVP (RB now))) (. .))"


@pytest.mark.parametrize(
    "gold, system, expected",
    [
        (GOLD, GOLD, (4, 4, 4, 4, 4, 1)),
        (
            GOLD,
            "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps) (PRT (RP now))) (. .))",
            (4, 4, 4, 3, 4, 1),
        ),  # PRT is ADVP
        (
            GOLD,
            "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (ADVP (RB now)) (. .)))",
            (3, 4, 4, 4, 4, 0),
        ),  # the VP differs
        (
            GOLD,
            "(S (NP (DT the)) (X (NN dog) (VBZ sleeps) (RB now)) (NP (. .)))",
            (1, 4, 3, 4, 4, 0),
        ),
        (
            GOLD,
            "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps) (ADVP (RB now)) (. .)))",
            (4, 4, 4, 4, 4, 1),
        ),  # the parent of the full stop does not matter
        (
            GOLD,
            "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps) (ADVP (RB now))) (NN .))",
            (4, 4, 4, 4, 4, 1),
        ),  # punctuation by the gold tree's tag
        ("(NP (NP (NN a)))", "(NP (NN a))", (1, 2, 1, 1, 1, 0)),  # the same bracket twice
        ("(S (NP-SBJ (NN a)))", "(S (NP (NN a)))", (2, 2, 2, 1, 1, 1)),
        ("(TOP (NN a))", "(TOP (NN a))", (0, 0, 0, 1, 1, 1)),
        ("(S1 (S (NN a)))", "(ROOT (S (NN a)))", (1, 1, 1, 1, 1, 1)),
        ("(S (NP=2 (NN a)))", "(S (NP (NN a)))", (2, 2, 2, 1, 1, 1)),
        # one word and a sign that is not counted, which has a different parent in the system's tree
        *(
            (f"(S (NP (NN a)) ({sign} x))", f"(S (NP (NN a) ({sign} x)))", (2, 2, 2, 1, 1, 1))
            for sign in (",", ":", "``", "''", ".")
        ),
        ("(S (NP (NN a)) ($ x))", "(S (NP (NN a) ($ x)))", (1, 2, 2, 2, 2, 0)),
    ],
)
def test_counts_follow_the_conventions(gold, system, expected):
    assert compare_trees(tree(gold), tree(system)) == BracketCounts(*expected, 1)


def test_positions_skip_punctuation():
    found = brackets(
        tree("(S (`` ``) (NP (NN a)) (: :) (VP (VB b) (NP (. .))))"),
        [False, True, False, True, False],
    )
    assert found == [("S", 0, 2), ("NP", 0, 1), ("VP", 1, 2)]


def test_sums_and_short_sentences():
    forty = f"(S {' '.join('(NN a)' for _ in range(39))} (. .))"
    assert compare_all([(tree(forty), tree(forty))])[1].sentences == 1
    long = f"(S {' '.join('(NN a)' for _ in range(40))} (. .))"
    total, short = compare_all([(tree(GOLD), tree(GOLD)), (tree(long), tree(long))])
    assert (total.sentences, short.sentences) == (2, 1)
    half = BracketCounts(matched=1, gold=4, system=2)
    assert (half.recall, half.precision, half.f1) == (0.25, 0.5, pytest.approx(1 / 3))
    empty = BracketCounts()
    assert empty.f1 == empty.recall == empty.precision == 0


def test_differing_words_are_reported_with_the_sentence_number():
    with pytest.raises(
        InputError, match="sentence 2: the words differ from the gold tree's: 'the cat"
    ):
        compare_all([(tree(GOLD), tree(GOLD)), (tree(GOLD), tree(GOLD.replace("dog", "cat")))])


def test_words_may_be_escaped_or_in_plain_spelling():
    assert (
        compare_trees(tree(r"(S (CD 1\/2) (-LCB- -LCB-))"), tree("(S (CD 1/2) (-LCB- {))")).exact
        == 1
    )


def random_tree(rng, words):
    """Return a random tree over words with their tags, covering every convention."""
    if len(words) == 1 and rng.random() < 0.6:
        return Tree(words[0][1], [words[0][0]])
    label = rng.choice(["NP", "VP", "PP", "ADVP", "PRT"])
    if len(words) == 1:
        return Tree(label, [random_tree(rng, words)])
    cuts = sorted(rng.sample(range(1, len(words)), rng.randint(0, min(3, len(words) - 1))))
    parts = [words[a:b] for a, b in zip([0, *cuts], [*cuts, len(words)], strict=True)]
    return Tree(label, [random_tree(rng, part) for part in parts])


def test_counts_agree_with_pyevalb():
    pytest.importorskip("PYEVALB")
    rng = random.Random(1)
    f1s = set()
    for _ in range(500):
        words = [f"w{i}" for i in range(rng.randint(1, 12))]
        pair = [
            Tree(
                "TOP",
                [
                    random_tree(
                        rng, [(word, rng.choice(["NN", "VB", "JJ", ",", "."])) for word in words]
                    )
                ],
            )
            for _ in range(2)
        ]
        ours, difference = compare(*pair)
        assert difference == ""
        f1s.add(round(ours.f1, 2))
    assert len(f1s) > 30
