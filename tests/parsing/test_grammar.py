"""§6.3 Decoding constrained to trees."""

import itertools
import random

import pytest
import torch
from searches import beam_search, noisy_model, source_batch

from aiayn_plugin.errors import InputError
from aiayn_plugin.parsing.grammar import TreeGrammar
from aiayn_plugin.parsing.linearisation import build_tree, linearise_tree

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
SYMBOLS = [*SPECIAL, "(A", ")A", "(B", ")B", "N", "V", "(never", "madeupword0000"]
PAD, EOS, UNK = 1, 2, 3
SUBWORDS = [*SPECIAL, "a", "b@@", "c", "@@"]


def is_tree(symbols, words):
    """Whether symbols are those of a tree over this number of words."""
    names = [f"w{i}" for i in range(words)]
    tree, repairs = build_tree(symbols, names)
    return (
        bool(symbols) and repairs == 0 and linearise_tree(tree) == symbols and symbols[0][0] == "("
    )


def allowed(symbols, words, remaining, **settings):
    """Return the symbols that may follow a hypothesis."""
    tokens = torch.tensor([EOS, *(SYMBOLS.index(s) for s in symbols)])[None, None]
    grammar = TreeGrammar(SUBWORDS, SYMBOLS, **settings)
    mask = grammar.allowed(tokens, torch.tensor([words]), torch.tensor([remaining]))
    return {SYMBOLS[i] for i in mask[0, 0].nonzero()[:, 0]}


def test_allowed_symbols():
    assert allowed(["(A"], 1, 9) == {"(A", "(B", "N", "V"}, "neither (never nor madeupword0000"
    assert allowed([], 0, 9) == {"</s>"}, "without a word there is no tree"


def test_exactly_the_trees_within_the_limit_can_be_reached():
    """All sequences up to a length, tried one by one, against those that the grammar allows."""
    symbols, limit = ["(A", ")A", "(B", ")B", "N"], 7
    for words in (1, 2, 3):
        reached, open_ = set(), [()]
        while open_:
            begun = open_.pop()
            for symbol in allowed(begun, words, limit - len(begun)) & {*symbols, "</s>"}:
                if symbol == "</s>":
                    reached.add(begun)
                else:
                    assert len(begun) < limit, "it cannot be completed within the limit"
                    open_.append((*begun, symbol))
        trees = {
            candidate
            for length in range(limit + 1)
            for candidate in itertools.product(symbols, repeat=length)
            if candidate[:1] in (("(A",), ("(B",)) and candidate.count("N") == words
            if is_tree(list(candidate), words)
        }
        assert reached == trees and reached


@pytest.mark.parametrize("beam", [1, 4])
def test_a_search_completes_every_tree_within_its_limit(beam):
    words = [5, 1, 8, 3, 2, 13, 0]
    grammar = TreeGrammar([*SPECIAL, *"abcdefgh"], SYMBOLS)
    settings = {"beam": beam, "nbest": beam, "max_len_b": 4}
    search = beam_search([noisy_model()], settings, constraint=grammar)
    for n, hypotheses in zip(words, search.search_batch(source_batch(words)), strict=True):
        for hypothesis in hypotheses:
            symbols = [SYMBOLS[i] for i in hypothesis.tokens[:-1]]
            assert len(symbols) <= n + 4 and (is_tree(symbols, n) if n else not symbols)


def test_hypotheses_of_a_batch_are_independent():
    rng = random.Random(1)
    grammar = TreeGrammar(SUBWORDS, SYMBOLS)
    tokens = torch.tensor(
        [[[rng.randrange(4, 10) for _ in range(6)] for _ in range(3)] for _ in range(5)]
    )
    words, remaining = torch.tensor([1, 2, 3, 4, 5]), torch.tensor([9, 8, 7, 6, 5])
    together = grammar.allowed(tokens, words, remaining)
    for i, j in itertools.product(range(5), range(3)):
        alone = grammar.allowed(
            tokens[i : i + 1, j : j + 1], words[i : i + 1], remaining[i : i + 1]
        )
        assert torch.equal(together[i, j], alone[0, 0])


def test_brackets_do_not_open_beyond_the_maximum_depth():
    assert allowed(["(A"] * 3, 1, 99, max_depth=3) == {"N", "V"}
    assert "(B" in allowed(["(A"] * 3, 1, 99, max_depth=4)


def test_words_are_counted_by_their_last_subwords():
    source = torch.tensor([[4, 5, 6, UNK, EOS, PAD], [5, 5, 4, EOS, PAD, PAD]])
    assert TreeGrammar(SUBWORDS, SYMBOLS).start(source, torch.tensor([9, 9])).tolist() == [3, 1]


def test_a_limit_below_the_smallest_tree_is_an_error():
    grammar = TreeGrammar(SUBWORDS, SYMBOLS)
    source = torch.tensor([[4, 6, EOS], [PAD, PAD, EOS]])
    assert grammar.start(source, torch.tensor([4, 0])).tolist() == [2, 0]
    with pytest.raises(InputError, match="over 2 words needs 4 symbols, but the limit is 3: raise"):
        grammar.start(source, torch.tensor([3, 9]))
