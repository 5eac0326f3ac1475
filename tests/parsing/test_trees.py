"""Bracketed trees: read as they stand, cleaned as the paper's parser needs them."""

import pytest
from nltk import Tree

from aiayn_plugin.errors import InputError
from aiayn_plugin.parsing.trees import as_line, category, cleaned, read_trees, words

TREE = """
( (S
    (NP-SBJ-1
      (NP (NNP Rudolph) (NNP Agnew) )
      (, ,) (PRN (-LRB- -LRB-) (CD 55) (-RRB- -RRB-)))
    (VP (VBD was)
      (VP (VBN named)
        (S (NP-SBJ (-NONE- *-1) )
          (NP-PRD (DT a) (NN director) ))
        (ADVP (-NONE- *T*-2)) (PRT (RP up)) (NP=2 (NN x))))
    (. .) ))
"""
CLEAN = (
    "(S (NP (NP (NNP Rudolph) (NNP Agnew)) (, ,) (PRN (-LRB- -LRB-) (CD 55) (-RRB- -RRB-))) "
    "(VP (VBD was) (VP (VBN named) (S (NP (DT a) (NN director))) (PRT (RP up)) (NP (NN x)))) "
    "(. .))"
)


def of(text, tmp_path):
    path = tmp_path / "trees.mrg"
    path.write_text(text, encoding="utf-8")
    return list(read_trees(path))


def test_traces_functions_and_indices_go(tmp_path):
    [tree] = of(TREE, tmp_path)
    assert as_line(cleaned(tree)) == CLEAN
    assert words(cleaned(tree)) == [
        "Rudolph",
        "Agnew",
        ",",
        "(",
        "55",
        ")",
        "was",
        "named",
        "a",
        "director",
        "up",
        "x",
        ".",
    ]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("(S (NN a))(S (NN b))", ["(S (NN a))", "(S (NN b))"]),
        ("(TOP (S (NN a)))\n\n( (S\n(NN b)))", ["(S (NN a))", "(S (NN b))"]),
        ("(ROOT (S1 (S (NN a))))", ["(S (NN a))"]),
        ("( (S (NN a)) (. .))", ["(TOP (S (NN a)) (. .))"]),
        ("(ROOT (NN a))", ["(TOP (NN a))"]),
        ("(NN a)", ["(TOP (NN a))"]),
        ("(S(NP(NN\ta))(VP\n(VB b)))", ["(S (NP (NN a)) (VP (VB b)))"]),
        ("(ROOT (S (NP (-NONE- *))))", [None]),
        ("", []),
    ],
)
def test_outer_labels_and_white_space(tmp_path, text, expected):
    found = [cleaned(tree) for tree in of(text, tmp_path)]
    assert [tree and as_line(tree) for tree in found] == expected


@pytest.mark.parametrize(
    "label, expected",
    [
        ("NP-SBJ-1", "NP"),
        ("NP=2", "NP"),
        ("-LRB-", "-LRB-"),
        ("-NONE-", "-NONE-"),
        ("PRP$", "PRP$"),
        ("WHNP-1", "WHNP"),
        ("ADVP|PRT", "ADVP|PRT"),
        ("S-TPC=1", "S"),
    ],
)
def test_categories(label, expected):
    assert category(label) == expected


@pytest.mark.parametrize(
    "text, message",
    [
        ("\n(S (NN a)", "line 2: the tree that begins here is not closed"),
        ("(S (NN a)))", "line 1: a bracket is closed that none opened"),
        ("(S (NN a))\nword", "line 2: 'word' is in no brackets"),
        ("(S (NP))", r"line 1: in the tree that begins here, \(NP …\) is empty"),
        ("()", r"line 1: in the tree that begins here, \( …\) is empty"),
        (
            "(S\n(NN a b))",
            r"line 1: in the tree that begins here, \(NN …\) has a word beside others",
        ),
        ("(S (NP the (NN dog)))", r"\(NP …\) has a word beside others"),
        ("(S ( a))", r"\(a …\) is empty"),
        ("(S " * 201, "line 1: more than 200 brackets are open; the tree begins in line 1"),
    ],
)
def test_what_is_no_tree_is_named_by_its_line(tmp_path, text, message):
    with pytest.raises(InputError, match=message) as error:
        of(text, tmp_path)
    assert "trees.mrg" in str(error.value) and "\n" not in str(error.value)


def test_brackets_in_words_are_escaped():
    assert as_line(Tree("S", [Tree("NN", [":-)"])])) == "(S (NN :--RRB-))"


def test_a_bracket_that_is_missing_does_not_take_all_of_a_file(tmp_path):
    path = tmp_path / "long.mrg"
    path.write_text("(S (NN a))\n(S (NN a)\n" + "(S (NN a)) " * 200_000)
    with pytest.raises(InputError, match="line 2: the tree that begins here has more than 1,000,0"):
        list(read_trees(path))
    path.write_text("(S (NN a)) " * 200_000)
    assert sum(1 for _ in read_trees(path)) == 200_000


@pytest.mark.parametrize(
    "label, expected",
    [
        ("NP-SBJ-1", "NP"),
        ("NP=2", "NP"),
        ("-LRB-", "-LRB-"),
        ("=", "="),
        ("-", "-"),
        ("S", "S"),
    ],
)
def test_a_category_is_never_empty(label, expected):
    assert category(label) == expected


def test_control_characters_are_no_words(tmp_path):
    path = tmp_path / "odd.mrg"
    path.write_text("(S (NN d\x02og) (NN b))")
    assert next(iter(read_trees(path))).leaves() == ["dog", "b"]
    path.write_text("(S (NN \x01))")
    with pytest.raises(InputError, match=r"\(NN …\) is empty"):
        list(read_trees(path))


def test_words_outside_of_trees():
    tree = Tree.fromstring(r"(S (-LRB- -LRB-) (CD 1\/2) (NN S\*) (-RCB- -RCB-) (NN a))")
    assert words(tree) == ["(", "1/2", "S*", "}", "a"]
