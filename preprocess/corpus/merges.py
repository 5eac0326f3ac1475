"""subword-nmt's learning of BPE merges: the same merges, several times as fast.

The loop over the merges is the library's. It prunes the counts of rare pairs in a way that changes
which pairs it finds, so these functions take the place of its own, and change nothing that it sees.
"""

import builtins
import contextlib
import gc
from collections import defaultdict
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Any, NamedTuple, TextIO

from subword_nmt import learn_bpe as library

Pair = tuple[str, ...]  # of two symbols
Word = tuple[str, ...]
#: For each pair the numbers of the words that have it, and how often each does.
Indices = defaultdict[Pair, defaultdict[int, int]]


def learn_codes(counted: Iterable[str], codes: TextIO, size: int, total: bool) -> None:
    """Write the merges that subword-nmt learns from lines of a word, without spaces, and its count.

    size, total: of that many merges or, if total, of that many pieces.
    """
    with _faster():
        library.learn_bpe(counted, codes, size, is_dict=True, total_symbols=total)
    # Python keeps some freed objects for later. They are all over the memory, and hold most of it.
    gc.collect()


@contextlib.contextmanager
def _faster() -> Iterator[None]:
    """Let the library call other functions. Can go when subword-nmt is as fast."""
    ours = {
        "get_pair_statistics": _count_pairs,
        "replace_pair": _replace_pair,
        "update_pair_statistics": _update_pairs,
    }
    theirs = {name: getattr(library, name) for name in ours}
    vars(library).update(ours, max=_max)
    collects = gc.isenabled()
    gc.disable()  # it would look through millions of pairs, again and again
    try:
        yield
    finally:
        if collects:
            gc.enable()
        del library.max
        vars(library).update(theirs)


class PairCounts(defaultdict[Pair, int]):
    """How often each pair occurs. It also knows which one does most often."""

    def __init__(self, counts: dict[Pair, int] | None = None) -> None:
        super().__init__(int, counts or {})
        #: The pairs that have, or had, each positive count, once `most_frequent` was asked for.
        self._pairs: dict[int, set[Pair]] | None = None
        self._counts: list[int] = []  # a heap of the negative counts

    def __deepcopy__(self, memo: dict) -> "PairCounts":
        """Copy for the library. Pairs and numbers are shared: they never change."""
        return PairCounts(self)

    def add(self, changes: dict[Pair, int]) -> None:
        """Add to the counts; a new pair begins at 0."""
        for pair, change in changes.items():
            self[pair] += change
        if self._pairs is not None:
            self._sort(changes)

    def _sort(self, pairs: Iterable[Pair]) -> None:
        """Put pairs to the others of their count."""
        assert self._pairs is not None
        for pair in pairs:
            count = self[pair]
            if count in self._pairs:
                self._pairs[count].add(pair)
            elif count > 0:
                self._pairs[count] = {pair}
                heappush(self._counts, -count)

    def most_frequent(self) -> Pair:
        """Return the most frequent pair, and of several the last by their text.

        For example, {ab: 5, ac: 5, ad: 2}: the largest count is 5, and ac is the last that has it.
        """
        if self._pairs is None:
            self._pairs = {}
            self._sort(self)
        while self._counts:
            count = -self._counts[0]
            self._pairs[count] = {pair for pair in self._pairs[count] if self.get(pair) == count}
            if self._pairs[count]:
                return builtins.max(self._pairs[count])
            del self._pairs[count]
            heappop(self._counts)
        most = builtins.max(self.values())  # none is positive: the library is about to stop
        return builtins.max(pair for pair, count in self.items() if count == most)


def _max(of: Any, key: Any = None) -> Any:
    """Return max(of). With a key the library asks for the most frequent pair of PairCounts."""
    return builtins.max(of) if key is None else of.most_frequent()


def _count_pairs(vocab: list[tuple[Word, int]]) -> tuple[PairCounts, Indices]:
    """Return how often each pair occurs in words with their counts, and in which words."""
    counts, indices = PairCounts(), Indices(lambda: defaultdict(int))
    for number, (word, count) in enumerate(vocab):
        for pair in zip(word, word[1:]):  # noqa: B905 - the last symbol begins no pair
            counts[pair] += count
            indices[pair][number] += 1
    return counts, indices


class Merged(NamedTuple):
    """What a merge does to one word."""

    number: int  #: of the word
    times: int  #: that the text has the word
    lost: list[Pair]  #: pairs with one symbol of the merged pair that the word had before
    gained: list[Pair]  #: pairs with the new symbol


def _replace_pair(pair: Pair, vocab: list[tuple[Word, int]], indices: Indices) -> list[Merged]:
    """Merge a pair in each word that has it, as its index says."""
    changes = []
    for number, occurrences in indices[pair].items():
        if occurrences >= 1:
            word, count = vocab[number]
            merged, lost = merge(word, *pair)
            vocab[number] = merged, count
            changes.append(Merged(number, count, lost, _with(pair[0] + pair[1], merged)))
    return changes


def merge(word: Word, first: str, second: str) -> tuple[Word, list[Pair]]:
    """Join first and second wherever they meet, from the left; return the word and its lost pairs.

    For example, (a, b, c, b, c, d) with b and c is (a, bc, bc, d), and has lost ab, cb and cd.
    """
    symbols: list[str] = []
    lost: list[Pair] = []
    start, last = 0, len(word) - 1
    joined = -1  # where the pair before ended
    while True:
        try:
            found = word.index(first, start, last)
        except ValueError:
            break
        symbols += word[start:found]
        if word[found + 1] != second:
            symbols.append(first)
            start = found + 1
            continue
        if joined > 0 and joined != found:
            lost.append(word[joined - 1 : joined + 1])
        if found:
            lost.append(word[found - 1 : found + 1])
        symbols.append(first + second)
        start = joined = found + 2
    if 0 < joined <= last:
        lost.append(word[joined - 1 : joined + 1])
    return (*symbols, *word[start:]), lost


def _with(symbol: str, word: Word) -> list[Pair]:
    """Return the pairs of a word that have a symbol, each pair of two such symbols once.

    As the library does, it takes a symbol that another merge made, with the same text, for new.
    """
    pairs: list[Pair] = []
    last = len(word) - 1
    for i, other in enumerate(word):
        if other == symbol:
            if i:
                pairs.append(word[i - 1 : i + 1])
            if i < last and word[i + 1] != symbol:
                pairs.append(word[i : i + 2])
    return pairs


def _update_pairs(pair: Pair, changes: list[Merged], counts: PairCounts, indices: Indices) -> None:
    """Count the pairs again around a pair that was merged."""
    total: defaultdict[Pair, int] = defaultdict(int)
    indices[pair] = defaultdict(int)
    for number, times, lost, gained in changes:
        for other in lost:
            total[other] -= times
            indices[other][number] -= 1
        for other in gained:
            total[other] += times
            indices[other][number] += 1
    counts[pair] = 0
    counts.add(total)
