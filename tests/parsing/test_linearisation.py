"""Trees as sequences, and any sequence as a tree."""

import random

import pytest
from nltk import Tree

from aiayn_plugin.parsing.linearisation import sequence, tree_of
from aiayn_plugin.parsing.trees import as_line, cleaned, is_word, read_trees


def tree(text):
    return Tree.fromstring(text)


def test_a_tree_is_brackets_with_labels_and_tags():
    found = sequence(tree("(S (NP (NNP John)) (VP (VBZ sleeps)))"))
    assert found == "(S (NP NNP )NP (VP VBZ )VP )S".split()


@pytest.mark.parametrize(
    "symbols, words, expected, mends",
    [
        ("(S (NP NN )NP )S", "a", "(S (NP (NN a)))", 0),
        ("(S (NP NN )VP", "dogs bark", "(S (NP (NN dogs) (NN bark)))", 4),
        ("", "a b", "(TOP (NN a) (NN b))", 3),
        ("(S NN NN NN )S", "a", "(S (NN a))", 2),
        ("NN", "a", "(TOP (NN a))", 1),
        ("(S NN )S (NP NN )NP", "a b", "(TOP (S (NN a)) (NP (NN b)))", 1),
        (")S )S (S NN )S )S", "a", "(S (NN a))", 3),
        ("(S (NP (VP NN )S", "a", "(S (NP (VP (NN a))))", 2),
        ("(S (NP )NP NN )S", "a", "(S (NN a))", 1),
        ("(TOP NN )TOP", "a", "(TOP (NN a))", 0),
        ("(S NN )S", "a b", "(TOP (S (NN a)) (NN b))", 2),
        ("( NN )", "a", "( (NN a))", 0),
    ],
)
def test_what_is_no_tree_is_mended_and_counted(symbols, words, expected, mends):
    found, count = tree_of(symbols.split(), words.split())
    assert (as_line(found), count) == (expected, mends)


def well_formed(found, words):
    assert found.leaves() == words
    for part in found.subtrees():
        assert len(part) and (is_word(part) or all(isinstance(child, Tree) for child in part))


def test_every_sequence_becomes_a_tree_over_the_words():
    rng = random.Random(1)
    symbols = [
        "(S",
        ")S",
        "(NP",
        ")NP",
        "(VP",
        ")VP",
        "NN",
        "VB",
        "-LRB-",
        ".",
        "(",
        ")",
        "<unk>",
        "(TOP",
        ")TOP",
        "(S)",
        "()",
    ]
    for _ in range(2000):
        words = [f"w{i}" for i in range(rng.randint(1, 12))]
        found, mends = tree_of(rng.choices(symbols, k=rng.randint(0, 40)), words)
        well_formed(found, words)
        assert Tree.fromstring(as_line(found)) == found
        again, more = tree_of(sequence(found), words)
        assert (again, more) == (found, 0), "what was mended needs no mend"
        assert mends >= 0


@pytest.mark.parametrize(
    "symbols",
    [["(S"] * 10_000, [")S"] * 10_000, ["NN"] * 10_000, ["(S", ")S"] * 5_000, ["(S", "NN"] * 5_000],
)
def test_ten_thousand_symbols_become_a_tree(symbols, tmp_path):
    found, mends = tree_of(symbols, ["a", "b"])
    well_formed(found, ["a", "b"])
    assert mends > 0
    (tmp_path / "tree").write_text(as_line(found))
    assert list(read_trees(tmp_path / "tree")) == [found], "what was mended can be read"
    assert tree_of(sequence(found), ["a", "b"]) == (found, 0)


@pytest.mark.parametrize("corpus, least", [("ptb_sample", 3_914), ("gum/const", 13_263)])
def test_the_way_there_and_back_is_the_identity(repo, corpus, least):
    folder = repo.parent / "shared" / "data" / corpus
    if not folder.is_dir():
        pytest.skip(f"needs the trees in {folder}")
    number = 0
    for path in sorted([*folder.glob("*.mrg"), *folder.glob("*.ptb")]):
        for read in read_trees(path):
            number += 1
            clean = cleaned(read)
            assert clean is not None
            assert tree_of(sequence(clean), clean.leaves()) == (clean, 0)
    assert number == least
