"""§6.3: a search that finds nothing but trees."""

import itertools
import random

import pytest
import torch

from aiayn_plugin.parsing.grammar import TreeGrammar
from aiayn_plugin.parsing.linearisation import sequence, tree_of

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
SYMBOLS = [*SPECIAL, "(A", ")A", "(B", ")B", "N", "V", "(never", "madeupword0000"]
EOS, UNK = 2, 3
PIECES = [*SPECIAL, "a", "b@@", "c", "@@"]


def grammar(deepest=200):
    return TreeGrammar(PIECES, SYMBOLS, len(SPECIAL), EOS, deepest)


def is_tree(symbols, words):
    """Whether symbols are those of a tree over so many words."""
    names = [f"w{i}" for i in range(words)]
    tree, mends = tree_of(symbols, names)
    return bool(symbols) and mends == 0 and sequence(tree) == symbols and symbols[0] in ("(A", "(B")


def allowed(symbols, words, room):
    numbers = torch.tensor([SYMBOLS.index(s) for s in symbols], dtype=torch.long)
    may = grammar().allowed(numbers[None, None], torch.tensor([words]), torch.tensor([room]))
    return {SYMBOLS[i] for i in may[0, 0].nonzero()[:, 0]}


@pytest.mark.parametrize(
    "symbols, words, room, expected",
    [
        ("", 1, 9, "(A (B"),
        ("(A", 1, 9, "(A (B N V"),
        ("(A N", 1, 9, ")A"),
        ("(A N", 2, 9, "(A (B N V"),
        ("(A (B N", 2, 9, "(A (B N V )B"),
        ("(A (B N", 1, 9, ")B"),
        ("(A (B N )B", 1, 9, ")A"),
        ("(A (B N )B (A N", 2, 9, ")A"),
        ("(A N )A", 1, 9, "</s>"),
        ("(A N", 2, 4, "(A (B N V"),
        ("(A N", 2, 3, "N V"),  # (B N )B )A would take four
    ],
)
def test_what_may_follow(symbols, words, room, expected):
    assert allowed(symbols.split(), words, room) == set(expected.split())


def test_a_sentence_without_a_word_ends_at_once():
    assert allowed([], 0, 9) == {"</s>"}


def test_exactly_the_trees_within_the_limit_can_be_reached():
    """All sequences up to a length, by trying each one, against those that the grammar allows."""
    symbols, limit = ["(A", ")A", "(B", ")B", "N"], 7
    for words in (1, 2, 3):
        reached, open_ = set(), [()]
        while open_:
            begun = open_.pop()
            for symbol in allowed(begun, words, limit - len(begun)) & {*symbols, "</s>"}:
                if symbol == "</s>":
                    reached.add(begun)
                else:
                    assert len(begun) < limit, "it cannot be finished any more"
                    open_.append((*begun, symbol))
        tried = {
            found
            for length in range(limit + 1)
            for found in itertools.product(symbols, repeat=length)
            if is_tree(list(found), words)
        }
        assert reached == tried and reached


def test_hypotheses_of_a_batch_do_not_touch_each_other():
    rng = random.Random(1)
    made = grammar()
    rows = [[[rng.randrange(4, 10) for _ in range(6)] for _ in range(3)] for _ in range(5)]
    words, room = torch.tensor([1, 2, 3, 4, 5]), torch.tensor([9, 8, 7, 6, 5])
    whole = made.allowed(torch.tensor(rows), words, room)
    for i, j in itertools.product(range(5), range(3)):
        alone = made.allowed(
            torch.tensor(rows)[i : i + 1, j : j + 1], words[i : i + 1], room[i : i + 1]
        )
        assert torch.equal(whole[i, j], alone[0, 0])


def test_no_more_brackets_are_open_than_may_be():
    symbols = torch.full((1, 1, 3), SYMBOLS.index("(A"))
    may = grammar(deepest=3).allowed(symbols, torch.tensor([1]), torch.tensor([99]))
    assert not may[0, 0, SYMBOLS.index("(B")] and may[0, 0, SYMBOLS.index("N")]


def test_words_are_counted_by_their_ends():
    source = torch.tensor([[4, 5, 6, UNK, EOS, 1], [5, 5, 4, EOS, 1, 1]])
    assert grammar().words(source, UNK).tolist() == [3, 1]
