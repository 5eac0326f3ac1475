"""§6.3 Trees as sequences, and any sequence as a tree."""

import random

import pytest
from nltk import Tree

from aiayn_plugin.parsing.linearisation import build_tree, linearise_tree
from aiayn_plugin.parsing.trees import clean_tree, format_tree, is_preterminal, read_trees


@pytest.mark.parametrize(
    "symbols, words, expected, repairs",
    [
        ("(S (NP NN )NP )S", "a", "(S (NP (NN a)))", 0),
        ("(S (NP NN )VP", "dogs bark", "(S (NP (NN dogs) (NN bark)))", 4),
        ("", "a b", "(TOP (NN a) (NN b))", 3),
        ("(S NN NN NN )S", "a", "(S (NN a))", 2),
        ("NN", "a", "(TOP (NN a))", 1),
        ("(S NN )S (NP NN )NP", "a b", "(TOP (S (NN a)) (NP (NN b)))", 1),
        (")S )S (S NN )S )S", "a", "(S (NN a))", 3),
        ("(S (NP (VP NN )S", "a", "(S (NP (VP (NN a))))", 2),
        ("(S (NP NN )S NN", "a b", "(TOP (S (NP (NN a))) (NN b))", 2),
        ("(S (NP )NP NN )S", "a", "(S (NN a))", 1),
        ("(TOP NN )TOP", "a", "(TOP (NN a))", 0),
        ("(S NN )S", "a b", "(TOP (S (NN a)) (NN b))", 2),
        ("( NN )", "a", "( (NN a))", 0),
    ],
)
def test_repairs_are_made_and_counted(symbols, words, expected, repairs):
    found, count = build_tree(symbols.split(), words.split())
    assert (format_tree(found), count) == (expected, repairs)


def assert_well_formed(found, words):
    assert found.leaves() == words
    for part in found.subtrees():
        assert len(part) and (
            is_preterminal(part) or all(isinstance(child, Tree) for child in part)
        )


def test_every_sequence_becomes_a_tree_over_the_words():
    rng = random.Random(1)
    symbols = "(S )S (NP )NP (VP )VP NN VB -LRB- . ( ) <unk> (TOP )TOP (S) ()".split()
    for _ in range(2000):
        words = [f"w{i}" for i in range(rng.randint(1, 12))]
        found, repairs = build_tree(rng.choices(symbols, k=rng.randint(0, 40)), words)
        assert_well_formed(found, words)
        assert Tree.fromstring(format_tree(found)) == found
        again, more = build_tree(linearise_tree(found), words)
        assert (again, more) == (found, 0), "a repaired tree needs no repair"
        assert repairs >= 0


@pytest.mark.parametrize(
    "symbols",
    [["(S"] * 10_000, [")S"] * 10_000, ["NN"] * 10_000, ["(S", ")S"] * 5_000, ["(S", "NN"] * 5_000],
)
def test_ten_thousand_symbols_become_a_tree(symbols, tmp_path):
    found, repairs = build_tree(symbols, ["a", "b"])
    assert_well_formed(found, ["a", "b"])
    assert repairs > 0
    (tmp_path / "tree").write_text(format_tree(found))
    assert list(read_trees(tmp_path / "tree")) == [found], "a repaired tree can be read"
    assert build_tree(linearise_tree(found), ["a", "b"]) == (found, 0)


@pytest.mark.parametrize(
    "corpus, trees",
    [("ptb_sample", 3_914), pytest.param("gum/const", 13_263, marks=pytest.mark.long)],
)
def test_linearising_and_building_is_the_identity(repo, corpus, trees):
    folder = repo.parent / "shared" / "data" / corpus
    if not folder.is_dir():
        pytest.skip(f"needs the trees in {folder}")
    number = 0
    for path in sorted([*folder.glob("*.mrg"), *folder.glob("*.ptb")]):
        for read in read_trees(path):
            number += 1
            clean = clean_tree(read)
            assert clean is not None
            assert build_tree(linearise_tree(clean), clean.leaves()) == (clean, 0)
    assert number == trees
