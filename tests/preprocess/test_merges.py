"""BPE merges equal those of subword-nmt."""

import io
import random

import pytest
from subword_nmt.learn_bpe import learn_bpe

from aiayn_plugin.corpus.merges import learn_merges


def subword_nmt_merges(words, size, total):
    """Return the merges that subword-nmt learns."""
    codes = io.StringIO()
    lines = [f"{word} {count}" for word, count in words.items()]
    learn_bpe(lines, codes, size, is_dict=True, total_symbols=total)
    return [tuple(line.split(" ")) for line in codes.getvalue().splitlines()[1:]]


def random_words(seed, alphabet, number):
    """Return random words and counts, with many equally frequent pairs."""
    rng = random.Random(seed)
    words = {"".join(rng.choices(alphabet, k=rng.randint(1, 9))) for _ in range(number)}
    return {word: rng.randint(1, 5) for word in sorted(words)}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("alphabet", ["ab", "abcde", "aé\\.*(日本</w>", "abcdefghijklmnopqrst"])
@pytest.mark.parametrize("size, total", [(10, False), (400, False), (150, True)])
def test_merges_of_random_words(seed, alphabet, size, total):
    words = random_words(seed, alphabet, 300)
    merges = learn_merges(words, size, total)
    assert merges and merges == subword_nmt_merges(words, size, total)


def test_merges_of_random_text_with_frequent_and_rare_words():
    """With Zipf's frequencies, subword-nmt prunes and restores its counts many times."""
    rng = random.Random(7)
    syllables = [a + b for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "au", "en", "er")]
    vocabulary = ["".join(rng.choices(syllables, k=rng.randint(1, 5))) for _ in range(5000)]
    words: dict[str, int] = {}
    for _ in range(60_000):
        word = vocabulary[int(rng.paretovariate(0.6)) % len(vocabulary)]
        words[word] = words.get(word, 0) + 1
    merges = learn_merges(words, 1500)
    assert len(merges) == 1500 and merges == subword_nmt_merges(words, 1500, False)


def test_text_without_frequent_pairs_has_no_merges():
    assert learn_merges({}, 5) == learn_merges({"a": 9}, 5) == learn_merges({"ab": 1}, 5) == []
    assert learn_merges({"ab": 9}, 1, total=True) == []
