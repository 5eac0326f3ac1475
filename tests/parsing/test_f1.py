"""F1: counted by hand, and as another implementation counts."""

import random

import pytest
from beside_pyevalb import differing
from nltk import Tree

from aiayn_plugin.errors import InputError
from aiayn_plugin.parsing.f1 import Count, brackets, count, score


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
        ),  # the VP is another
        (
            GOLD,
            "(S (NP (DT the)) (X (NN dog) (VBZ sleeps) (RB now)) (NP (. .)))",
            (1, 4, 3, 4, 4, 0),
        ),
        (
            GOLD,
            "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps) (ADVP (RB now)) (. .)))",
            (4, 4, 4, 4, 4, 1),
        ),  # where the full stop hangs does not matter
        (
            GOLD,
            "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps) (ADVP (RB now))) (NN .))",
            (4, 4, 4, 4, 4, 1),
        ),  # the gold tree says that it is punctuation
        ("(NP (NP (NN a)))", "(NP (NN a))", (1, 2, 1, 1, 1, 0)),  # the same bracket twice
        ("(S (NP-SBJ (NN a)))", "(S (NP (NN a)))", (2, 2, 2, 1, 1, 1)),
        ("(TOP (NN a))", "(TOP (NN a))", (0, 0, 0, 1, 1, 1)),
        ("(S1 (S (NN a)))", "(ROOT (S (NN a)))", (1, 1, 1, 1, 1, 1)),
        ("(S (NP=2 (NN a)))", "(S (NP (NN a)))", (2, 2, 2, 1, 1, 1)),
        # one word beside a sign that does not count, which the system's tree has elsewhere
        *(
            (f"(S (NP (NN a)) ({sign} x))", f"(S (NP (NN a) ({sign} x)))", (2, 2, 2, 1, 1, 1))
            for sign in (",", ":", "``", "''", ".")
        ),
        ("(S (NP (NN a)) ($ x))", "(S (NP (NN a) ($ x)))", (1, 2, 2, 2, 2, 0)),
    ],
)
def test_counts_are_those_of_the_conventions(gold, system, expected):
    assert count(tree(gold), tree(system)) == Count(*expected, 1)


def test_places_leave_punctuation_out():
    found = brackets(
        tree("(S (`` ``) (NP (NN a)) (: :) (VP (VB b) (NP (. .))))"),
        [False, True, False, True, False],
    )
    assert found == [("S", 0, 2), ("NP", 0, 1), ("VP", 1, 2)]


def test_sums_and_short_sentences():
    forty = f"(S {' '.join('(NN a)' for _ in range(39))} (. .))"
    assert score([(tree(forty), tree(forty))])["short"].sentences == 1
    long = f"(S {' '.join('(NN a)' for _ in range(40))} (. .))"
    found = score([(tree(GOLD), tree(GOLD)), (tree(long), tree(long))])
    assert (found["all"].sentences, found["short"].sentences) == (2, 1)
    half = Count(matched=1, gold=4, system=2)
    assert (half.recall, half.precision, half.f1) == (0.25, 0.5, pytest.approx(1 / 3))
    assert Count().f1 == Count().recall == Count().precision == 0


def test_other_words_are_refused_with_the_number_of_the_sentence():
    with pytest.raises(InputError, match="sentence 2: other words than the gold tree's: 'the cat"):
        score([(tree(GOLD), tree(GOLD)), (tree(GOLD), tree(GOLD.replace("dog", "cat")))])


def test_words_may_be_spelled_as_the_treebank_does_or_as_others_do():
    assert count(tree(r"(S (CD 1\/2) (-LCB- -LCB-))"), tree("(S (CD 1/2) (-LCB- {))")).exact == 1


def random_tree(rng, words):
    """Return a random tree over words with their tags, with every case that has a convention."""
    if len(words) == 1 and rng.random() < 0.6:
        return Tree(words[0][1], [words[0][0]])
    label = rng.choice(["NP", "VP", "PP", "ADVP", "PRT"])
    if len(words) == 1:
        return Tree(label, [random_tree(rng, words)])
    cuts = sorted(rng.sample(range(1, len(words)), rng.randint(0, min(3, len(words) - 1))))
    parts = [words[a:b] for a, b in zip([0, *cuts], [*cuts, len(words)], strict=True)]
    return Tree(label, [random_tree(rng, part) for part in parts])


def test_scores_are_those_of_another_implementation():
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
        ours, other = differing(*pair)
        assert other == ""
        f1s.add(round(ours.f1, 2))
    assert len(f1s) > 30
