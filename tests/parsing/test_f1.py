"""§6.3 F1, computed by hand and compared with EVALB and PYEVALB."""

import random

import pytest
from compare_pyevalb import compare
from nltk import Tree

from aiayn_plugin.errors import InputError
from aiayn_plugin.parsing.f1 import BracketCounts, compare_all, compare_trees
from aiayn_plugin.parsing.scores import score_files

tree = Tree.fromstring


GOLD = "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps) (ADVP (RB now))) (. .))"


@pytest.mark.parametrize(
    "gold, system, expected",
    [
        (GOLD, GOLD, (4, 4, 4, 4, 4, 1)),
        (GOLD, GOLD.replace("ADVP (RB", "PRT (RP"), (4, 4, 4, 3, 4, 1)),  # PRT is ADVP
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
        # the parent of the full stop does not matter
        (GOLD, GOLD.replace(") (. .)", " (. .))"), (4, 4, 4, 4, 4, 1)),
        # the tag of a mark does not matter if neither side counts the mark
        (GOLD, GOLD.replace("(. .)", "(-NONE- .)"), (4, 4, 4, 4, 4, 1)),
        ("(NP (NP (NN a)))", "(NP (NN a))", (1, 2, 1, 1, 1, 0)),  # the same bracket twice
        ("(S (NP-SBJ (NN a)))", "(S (NP (NN a)))", (2, 2, 2, 1, 1, 1)),
        ("(TOP (NN a))", "(TOP (NN a))", (0, 0, 0, 1, 1, 1)),
        ("(S1 (S (NN a)))", "(ROOT (S (NN a)))", (1, 2, 2, 1, 1, 0)),
        ("( (S (NN a)))", "(TOP (S (NN a)))", (1, 2, 1, 1, 1, 0)),
        ("(S (-NONE- (NN a)))", "(S (S1 (NN a)))", (1, 2, 2, 1, 1, 0)),
        ("(S (NP (-NONE- *T*-1)) (VP (NN a)))", "(S (VP (NN a)))", (2, 2, 2, 1, 1, 1)),
        ("(S (PRT a))", "(S (ADVP a))", (1, 1, 1, 1, 1, 1)),
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


def test_sums_and_short_sentences():
    forty = f"(S (-NONE- *) {' '.join('(NN a)' for _ in range(39))} (. .))"
    assert compare_all([(tree(forty), tree(forty))])[1].sentences == 1
    long = f"(S {' '.join('(NN a)' for _ in range(40))} (. .))"
    total, short, *_ = compare_all([(tree(GOLD), tree(GOLD)), (tree(long), tree(long))])
    assert (total.sentences, short.sentences) == (2, 1)
    half = BracketCounts(matched=1, gold=4, system=2)
    assert (half.recall, half.precision, half.f1) == (0.25, 0.5, pytest.approx(1 / 3))
    empty = BracketCounts()
    assert empty.f1 == empty.recall == empty.precision == 0


EVALB_GOLD = """\
( (S (NP (NN a)) (VP (VB b)) (. .)))
(ROOT (S (NP (NN a)) (VP (VB b)) (. .)))
((S (NP (NN a)) (VP (VB b)) (. .)))
(S (NP (NN a)))(S (VP (VB b)) (. .))
(S (-NONE- (NN a)) (VP (VB b)) (. .))
(S (. .))
(S (NP (NN a)) (VP (VB b)) (. .))

(S (NP (NN a)))
"""
EVALB_SYSTEM = """\
(TOP (S (NP (NN a)) (VP (VB b)) (. .)))
(S (NP (NN a)) (VP (VB b)) (. .))
(ROOT (S (NP (NN a)) (VP (VB b)) (. .)))
(NP (NN a)) (VP (VB b)) (. .)
(S (-NONE- (NN a)) (VP (VB b)) (. .))
(S (NN .))
(S (NP (NN a)) (VP (VB b)) (NN .))

(())
"""


def test_files_get_the_scores_of_evalb(tmp_path):
    """The expected values are the output of EVALB's release of 2013 with its COLLINS.prm."""
    (tmp_path / "gold").write_text(EVALB_GOLD)
    (tmp_path / "system").write_text(EVALB_SYSTEM)
    scores = score_files(tmp_path / "gold", tmp_path / "system")
    assert scores.all == BracketCounts(
        matched=14, gold=19, system=15, tags=10, words=10, exact=1, sentences=9, skipped=4
    )
    assert scores.short == scores.all
    assert [line.split(":")[0] for line in scores.skipped] == [
        f"sentence {number}" for number in (6, 7, 8, 9)
    ]
    [line] = [line for line in scores.lines() if line.startswith("skipped")]
    assert "4 of 9 sentences, as EVALB does; first sentence 6: " in line and "'.'" in line
    assert "exact match  20.0%   of the 5 scored sentences" in scores.lines()


def test_the_gold_punctuation_lets_all_sentences_count(tmp_path):
    """A word that only the system tags as punctuation counts, with a wrong tag."""
    gold = ["(S (NP (DT a) (NN b)) (VP (VB c)) (. .))", "(S (NP (NN a) (-NONE- *)) (VP (VB b)))"]
    system = ["(S (NP (DT a)) (VP (. b) (VB c)) (NN .))", "(S (NP (NN a)))"]
    (tmp_path / "gold").write_text("\n".join([*gold, gold[0]]))
    (tmp_path / "system").write_text("\n".join([*system, gold[0]]))
    scores = score_files(tmp_path / "gold", tmp_path / "system")
    assert scores.all.skipped == 2 and scores.all.f1 == 1
    # In the first sentence only S matches, and the tag of b is wrong; the second lacks a word.
    assert scores.by_gold == BracketCounts(
        matched=4, gold=9, system=8, tags=5, words=6, exact=1, sentences=3
    )
    assert f"F1 of all    {100 * 8 / 17:.2f} " in "\n".join(scores.lines())


def test_trees_that_span_lines_are_sentences(tmp_path):
    (tmp_path / "gold").write_text("(S (NN a)) (S\n(NN b))\n\n( (S (NN c)) )\n")
    (tmp_path / "system").write_text("(S (NN a))\n(S (NN b))\n(S (NN c))\n")
    assert score_files(tmp_path / "gold", tmp_path / "system").all.exact == 3


def test_tags_are_counted_by_the_position_of_their_word(tmp_path):
    """Traces are not words, and a tree with different words is left out."""
    gold = f"(S {' '.join(f'(T{i} w)' for i in range(1, 13))} (. .))"
    wrong = gold.replace("T3 ", "X ").replace("T12", "X")
    (tmp_path / "gold").write_text(f"{gold.replace('(T1 ', '(-NONE- *) (T1 ')}\n{GOLD}\n{gold}\n")
    (tmp_path / "system").write_text(f"{wrong}\n(S (NN dog))\n{gold}\n")
    scores = score_files(tmp_path / "gold", tmp_path / "system")
    [line] = [line for line in scores.lines() if line.startswith("tags by word")]
    assert "1 95.0%, 11 83.3% " in line  # 19 of 20 words, 5 of 6


def test_files_without_a_common_sentence_are_an_error(tmp_path):
    (tmp_path / "gold").write_text(f"{GOLD}\n")
    (tmp_path / "system").write_text(GOLD.replace("dog", "cat"))
    with pytest.raises(
        InputError, match="no sentence can be scored: sentence 1: .* word 2 is 'cat sleeps"
    ):
        score_files(tmp_path / "gold", tmp_path / "system")


def test_a_sentence_of_punctuation_has_no_brackets_with_the_gold_tags():
    by_gold = compare_all([(tree("(FRAG (: --))"), tree("(NP (NN --))"))])[2]
    assert (by_gold.gold, by_gold.system, by_gold.sentences) == (0, 0, 1)


def test_words_may_be_escaped_or_in_plain_spelling():
    escaped, plain = r"(S (CD 1\/2) (-LCB- -LCB-))", "(S (CD 1/2) (-LCB- {))"
    assert compare_trees(tree(escaped), tree(plain)).exact == 1


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
        tags = rng.choices([["NN", "VB", "PRT"], [",", "."]], weights=[2, 1], k=rng.randint(1, 12))
        words = [[(f"w{i}", rng.choice(same)) for i, same in enumerate(tags)] for _ in range(2)]
        ours, difference = compare(*(Tree("TOP", [random_tree(rng, side)]) for side in words))
        assert difference == ""
        f1s.add(round(ours.f1, 2))
    assert len(f1s) > 30
