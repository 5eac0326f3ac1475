"""The merges of BPE are subword-nmt's, byte by byte."""

import io
import random

import pytest
from corpus.merges import learn_codes
from subword_nmt.learn_bpe import learn_bpe


def words(seed: int, alphabet: str, number: int) -> list[str]:
    """Return lines of random words and counts, in which many pairs are as frequent as others."""
    draw = random.Random(seed)
    found = {"".join(draw.choices(alphabet, k=draw.randint(1, 9))) for _ in range(number)}
    return [f"{word} {draw.randint(1, 5)}" for word in sorted(found)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("alphabet", ["ab", "abcde", "aé\\.*(日本</w>", "abcdefghijklmnopqrst"])
@pytest.mark.parametrize("size, total", [(10, False), (400, False), (150, True)])
def test_the_same_merges(seed, alphabet, size, total):
    lines = words(seed, alphabet, 300)
    theirs, ours = io.StringIO(), io.StringIO()
    learn_bpe(lines, theirs, size, is_dict=True, total_symbols=total)
    learn_codes(lines, ours, size, total)
    assert ours.getvalue() == theirs.getvalue() and ours.getvalue().count("\n") > 1


def test_the_library_is_left_as_it_was():
    learn_bpe_in = __import__("subword_nmt.learn_bpe", fromlist=["learn_bpe"])
    before = dict(vars(learn_bpe_in))
    with pytest.raises(ZeroDivisionError):
        learn_codes((1 / 0 for _ in "a"), io.StringIO(), 5, False)
    assert dict(vars(learn_bpe_in)) == before
