"""§6.3 Reading and cleaning bracketed trees."""

from collections import Counter

import pytest
from nltk import Tree

from aiayn_plugin.errors import InputError
from aiayn_plugin.parsing.trees import (
    clean_tree,
    format_tree,
    map_to_wsj,
    read_trees,
    tree_from_string,
    tree_words,
)

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


def read_text(text, tmp_path):
    path = tmp_path / "trees.mrg"
    path.write_text(text, encoding="utf-8")
    return list(read_trees(path))


def test_cleaning_removes_traces_functions_and_indices(tmp_path):
    [tree] = read_text(TREE, tmp_path)
    assert format_tree(clean_tree(tree)) == CLEAN
    words = "Rudolph Agnew , ( 55 ) was named a director up x ."
    assert tree_words(clean_tree(tree)) == words.split()


@pytest.mark.parametrize(
    "text, expected",
    [
        ("(S (NN a))(S (NN b))", ["(S (NN a))", "(S (NN b))"]),
        ("(TOP (S (NN a)))\n\n( (S\n(NN b)))", ["(S (NN a))", "(S (NN b))"]),
        ("(ROOT (S1 (S (NN a))))", ["(S (NN a))"]),
        ("(TOP (ROOT (NP (NN a)) (NP (NN b))))", ["(TOP (NP (NN a)) (NP (NN b)))"]),
        ("( (S (NN a)) (. .))", ["(TOP (S (NN a)) (. .))"]),
        ("(ROOT (NN a))", ["(TOP (NN a))"]),
        ("(NN a)", ["(TOP (NN a))"]),
        ("(S (= a))", ["(S (= a))"]),
        ("(S(NP(NN\ta))(VP\n(VB b)))", ["(S (NP (NN a)) (VP (VB b)))"]),
        ("(ROOT (S (NP (-NONE- *))))", [None]),
        ("", []),
    ],
)
def test_outer_labels_and_white_space(tmp_path, text, expected):
    found = [clean_tree(tree) for tree in read_text(text, tmp_path)]
    assert [tree and format_tree(tree) for tree in found] == expected


@pytest.mark.parametrize(
    "text, expected, changes",
    [
        (CLEAN, CLEAN, {}),
        (
            "(NP (NML (NN gene) (HYPH -) (NN scale)) (AFX non) (NN x))",
            "(NP (NN gene) (: -) (NN scale) (JJ non) (NN x))",
            {
                "brackets NML removed": 1,
                "tags HYPH mapped to :": 1,
                "tags AFX mapped to JJ": 1,
            },
        ),
        (
            "(HEADING (S (S (NN a) (EDITED (SU /)))))",
            "(S (NN a))",
            {
                "brackets HEADING removed": 1,
                "brackets EDITED removed": 1,
                "brackets removed around the same label": 1,
                "words tagged SU removed": 1,
            },
        ),
        (
            "(CAPTION (NP (NN a)) (. .))",
            "(TOP (NP (NN a)) (. .))",
            {"brackets CAPTION removed": 1},
        ),
        ("(TOP (S (NN a)) (CODE x))", "(S (NN a))", {"words tagged CODE removed": 1}),
        ("(S (NP (CODE <TURN>)))", None, {"words tagged CODE removed": 1}),
    ],
)
def test_other_labels_become_those_of_the_wall_street_journal(text, expected, changes):
    counted = Counter()
    tree = map_to_wsj(Tree.fromstring(text), counted)
    assert (tree and format_tree(tree), counted) == (expected, changes)


def test_typographic_spaces_do_not_separate_words(tmp_path):
    [tree] = read_text("(S (NN a\u200ab) (NN\u00a0 c))", tmp_path)
    assert format_tree(tree) == "(S (NN ab) (NN c))"


@pytest.mark.parametrize(
    "text, message",
    [
        ("\n(S (NN a)", "line 2: the tree that begins here is not closed"),
        ("(S (NN a)))", "line 1: unmatched closing bracket"),
        ("(S (NN a))\nword", "line 2: 'word' has no brackets"),
        ("(S (NP))", r"line 1: in the tree that begins here, \(NP …\) is empty"),
        (
            "(S\n(NN a b))",
            r"line 1: in the tree that begins here, \(NN …\) mixes a word with",
        ),
        ("(S ( a))", r"\(a …\) is empty"),
        ("(S " * 201, "line 1: more than 200 open brackets; the tree begins on line 1"),
    ],
)
def test_errors_give_the_line(tmp_path, text, message):
    with pytest.raises(InputError, match=message) as error:
        read_text(text, tmp_path)
    assert "trees.mrg" in str(error.value) and "\n" not in str(error.value)


def test_brackets_in_words_are_escaped():
    assert format_tree(Tree("S", [Tree("NN", [":-)"])])) == "(S (NN :--RRB-))"
    assert format_tree(Tree("TOP", [])) == ""  # as read_sentences reads an empty line


def test_a_missing_bracket_does_not_consume_the_file(tmp_path):
    trees = f"(S (NN {'a' * 1000})) " * 1000
    with pytest.raises(InputError, match="line 2: the tree that begins here has more than 1,000,0"):
        read_text("(S (NN a))\n(S (NN a)\n" + trees, tmp_path)
    assert len(read_text(trees, tmp_path)) == 1000


def test_control_characters_are_removed_from_words(tmp_path):
    [tree] = read_text("(S (NN d\x02og) (NN b))", tmp_path)
    assert tree.leaves() == ["dog", "b"]
    with pytest.raises(InputError, match=r"\(NN …\) is empty"):
        read_text("(S (NN \x01))", tmp_path)


def test_a_backslash_does_not_escape_a_bracket(tmp_path):
    [tree] = read_text(r"(S (NN C:\) (SYM \))", tmp_path)
    assert tree.leaves() == ["C:\\", "\\"]
    assert tree_from_string(format_tree(tree)) == tree


def test_words_in_plain_spelling():
    tree = Tree.fromstring(r"(S (-LRB- -LRB-) (CD 1\/2) (NN S\*) (-RCB- -RCB-) (NN f-LRB-x-RRB-))")
    assert tree_words(tree) == ["(", "1/2", "S*", "}", "f(x)"]
