"""Time grows with the length of a word or a line, and not with its square."""

import random
import time

import pytest

from aiayn_plugin.text.scores import PaperTokens
from aiayn_plugin.text.settings import TOKENIZERS
from aiayn_plugin.text.subwords import Bpe
from aiayn_plugin.text.tokenizer import Tokenizer

#: What a long line may repeat.
UNITS = [
    *("²", "MULTI", "DOT", "DOTMULTI", "a", "a–", "a/", "–", "1:", "1,", "'", ".", '."x', "a. "),
    *("((", "漢", "\u0301", "THISISPROTECTED000", "&amp;", "@-@", "-", "\x01", "\xa0", "\u3000"),
    *(" ", "。", "`", '",', "a'b", "A$", "°C", "« ", "nº\xa0", "a’", "\ud800", "1:2 ", "a.b.c "),
    *("Mr. ", "x@@ "),
]
KINDS = [(kind, normalise) for kind in TOKENIZERS for normalise in (False, True)]


def seconds(function, text):
    """Return the CPU seconds of one call."""
    began = time.process_time()
    function(text)
    return time.process_time() - began


def assert_not_quadratic(function, texts):
    """texts: pairs, the second 8 times as long as the first: quadratic time would be 64 times."""
    for short, long in texts:
        for attempt in range(3):  # a busy machine may spoil one
            limit = 24 * seconds(function, short) + 0.05
            if seconds(function, long) < limit:
                break
            assert attempt < 2, f"{long[:30]!r}… takes more than its length explains"


def repeated(length):
    for unit in UNITS:
        for end in ("", "–"):
            yield tuple((unit * (n // len(unit)) + end) for n in (length, 8 * length))


@pytest.mark.parametrize(("kind", "normalise"), KINDS)
def test_tokenising(kind, normalise):
    assert_not_quadratic(Tokenizer("de", normalise, kind).tokenize, repeated(2000))


def test_scoring_and_detokenising():
    assert_not_quadratic(PaperTokens("de"), repeated(2000))
    tokenizer = Tokenizer("fr")
    assert_not_quadratic(lambda text: tokenizer.detokenize(text.split()), repeated(2000))


def test_splitting_into_subwords(tmp_path):
    rng = random.Random(0)
    pieces = [*"abcdefgh"]
    merges = []
    for _ in range(3000):  # each merge may be the next one of the same word
        pair = rng.choice(pieces), rng.choice(pieces)
        merges.append(" ".join(pair))
        pieces.append("".join(pair)[:12])
    (tmp_path / "codes").write_text("\n".join(["#version: 0.2", *merges, ""]))
    bpe = Bpe(tmp_path / "codes")
    word = "".join(rng.choices("abcdefgh", k=64_000))
    assert bpe.encode([word]).replace("@@ ", "") == word
    assert_not_quadratic(lambda text: bpe.encode([text]), [(word[:8000], word)])


@pytest.mark.long
@pytest.mark.parametrize(("kind", "normalise"), KINDS)
def test_tokenising_random_text(kind, normalise):
    rng = random.Random(f"{kind}{normalise}")
    tokenize = Tokenizer("en", normalise, kind).tokenize
    for _ in range(30):
        units = rng.choices(UNITS, k=rng.randint(1, 6))
        texts = ["".join(rng.choices(units, k=k)) for k in (1_000, 8_000, 64_000)]
        assert_not_quadratic(tokenize, zip(texts, texts[1:], strict=False))
