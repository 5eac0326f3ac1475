"""subword-nmt's learning of BPE merges: the same merges, in half the time or less."""

import builtins
import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from subword_nmt import learn_bpe as library

Pair = tuple[str, str]
Word = tuple[str, ...]


def learn_codes(counted: Iterable[str], codes: TextIO, size: int, total: bool) -> None:
    """Write the merges that subword-nmt learns from lines of a word, without spaces, and its count.

    size, total: of that many merges or, if total, of that many pieces.
    """
    with _faster():
        library.learn_bpe(counted, codes, size, is_dict=True, total_symbols=total)


@contextlib.contextmanager
def _faster() -> Iterator[None]:
    """Let the library call other functions for two of its steps.

    They take three quarters of its time. Can go when subword-nmt is as fast.
    """
    replaced = library.replace_pair
    library.max, library.replace_pair = _max, _replace_pair
    try:
        yield
    finally:
        del library.max
        library.replace_pair = replaced


def _max(of: Any, key: Any = None) -> Any:
    """Return the most frequent pair of a dictionary, and of several the last by their text.

    The library asks for max(stats, key=lambda pair: (stats[pair], pair)), and calls the function
    for each pair at each merge. Here two passes find the same: {ab: 5, ac: 5, ad: 2} has at most 5,
    and ac is the last of those that have 5.
    """
    if key is None:
        return builtins.max(of)
    most = builtins.max(of.values())
    return builtins.max(pair for pair, count in of.items() if count == most)


def _replace_pair(pair: Pair, vocab: list[tuple[Word, int]], indices: Any) -> list[tuple]:
    """Merge a pair in each word that has it; return number, new and old word, and count of each.

    The library joins the symbols of a word by spaces, and replaces by a regular expression.
    """
    changes = []
    for number, occurrences in indices[pair].items():
        if occurrences >= 1:
            word, count = vocab[number]
            merged = _merged(word, *pair)
            vocab[number] = merged, count
            changes.append((number, merged, word, count))
    return changes


def _merged(word: Word, first: str, second: str) -> Word:
    """Return a word with first and second as one symbol wherever they meet, from the left."""
    symbols: list[str] = []
    start, last = 0, len(word) - 1
    while True:
        try:
            found = word.index(first, start, last)
        except ValueError:
            return (*symbols, *word[start:])
        symbols += word[start:found]
        if word[found + 1] == second:
            symbols.append(first + second)
            start = found + 2
        else:
            symbols.append(first)
            start = found + 1
