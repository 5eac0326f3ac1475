"""Learning BPE merges: those of subword-nmt's `learn_bpe`, several times faster.

subword-nmt scans all pairs for the most frequent one, and prunes the counts of rare pairs to make
that scan shorter. Pruning loses occurrences of pairs, so it affects which merges are learned. Here
an index by count finds the most frequent pair, and the counts are pruned at the same times.
"""

import gc
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush

Pair = tuple[str, ...]  # two symbols
Word = tuple[str, ...]
#: The words of the text as symbols, each with its count.
CountedWords = list[tuple[Word, int]]
#: For each pair, the position of each word that contains it, and how often it does.
Index = defaultdict[Pair, defaultdict[int, int]]

#: Pairs that occur less often are not merged.
MIN_COUNT = 2


def learn_merges(
    words: Mapping[str, int],
    size: int,
    total: bool = False,
    progress: Callable[[int], object] = lambda merges: None,
) -> list[Pair]:
    """Return up to `size` merges learned from words and their counts.

    total: `size` is the number of all subwords, the characters included. `progress` is called with
    1 for each merge.
    """
    gc.disable()  # it would traverse millions of pairs again and again
    try:
        return _learn(words, size, total, progress)
    finally:
        gc.enable()
        gc.collect()  # freed objects that Python keeps for reuse hold most of the memory


def _learn(
    words: Mapping[str, int], size: int, total: bool, progress: Callable[[int], object]
) -> list[Pair]:
    vocabulary = [((*word[:-1], f"{word[-1]}</w>"), count) for word, count in words.items()]
    vocabulary.sort(key=lambda entry: entry[1], reverse=True)
    if total:
        inner = {char for word in words for char in word[:-1]}
        size -= len(inner) + len({word[-1] for word in words})
    counts, index = _count_pairs(vocabulary)
    merges: list[Pair] = []
    threshold = max(counts.values(), default=0) / 10
    for i in range(size):
        count, pair = counts.find_most_frequent()
        if i and count < threshold:  # a pruned pair may be more frequent
            counts.restore(threshold)
            count, pair = counts.find_most_frequent()
            threshold = count * i / (i + 10_000.0)
            counts.prune(threshold)
        if count < MIN_COUNT:
            break
        merges.append(pair)
        _merge_everywhere(pair, vocabulary, counts, index)
        if i % 100 == 0:
            counts.prune(threshold)
        progress(1)
    return merges


class PairCounts(defaultdict[Pair, int]):
    """The count of each pair that is not pruned, and an index by count."""

    def __init__(self, counts: Mapping[Pair, int]) -> None:
        super().__init__(int, counts)
        self._all = defaultdict(int, counts)  # pruned pairs too, as of their last pruning
        self._build_index()

    def _build_index(self) -> None:
        #: The pairs that have, or had, each positive count, and a heap of the negative counts.
        self._by_count: dict[int, set[Pair]] = {}
        self._heap: list[int] = []
        self._add_to_index(self)

    def _add_to_index(self, pairs: Iterable[Pair]) -> None:
        for pair in pairs:
            count = self[pair]
            if count in self._by_count:
                self._by_count[count].add(pair)
            elif count > 0:
                self._by_count[count] = {pair}
                heappush(self._heap, -count)

    def add(self, changes: Mapping[Pair, int]) -> None:
        """Add to the counts; the count of a new or pruned pair starts at 0."""
        for pair, change in changes.items():
            self[pair] += change
        self._add_to_index(changes)

    def find_most_frequent(self) -> tuple[int, Pair]:
        """Return the highest count and its pair, the last one in lexicographic order.

        For example, (5, ac) of {ab: 5, ac: 5, ad: 2}; (0, ()) if no count is positive.
        """
        while self._heap:
            count = -self._heap[0]
            pairs = {pair for pair in self._by_count[count] if self.get(pair) == count}
            if pairs:
                self._by_count[count] = pairs
                return count, max(pairs)
            del self._by_count[count]
            heappop(self._heap)
        return 0, ()

    def prune(self, threshold: float) -> None:
        """Remove pairs whose count is below the threshold, and remember their counts."""
        for pair, count in list(self.items()):
            if count < threshold:
                del self[pair]
                # Negative: occurrences that were lost since the pair was pruned before.
                self._all[pair] = self._all[pair] + count if count < 0 else count

    def restore(self, threshold: float) -> None:
        """Prune once more, then restore all pairs with their remembered counts."""
        self.prune(threshold)
        self.clear()
        self.update(self._all)
        self._build_index()


def _count_pairs(vocabulary: CountedWords) -> tuple[PairCounts, Index]:
    counts: defaultdict[Pair, int] = defaultdict(int)
    index = Index(lambda: defaultdict(int))
    for number, (word, count) in enumerate(vocabulary):
        for pair in zip(word, word[1:]):  # noqa: B905 - the last symbol starts no pair
            counts[pair] += count
            index[pair][number] += 1
    return PairCounts(counts), index


def _merge_everywhere(
    pair: Pair, vocabulary: CountedWords, counts: PairCounts, index: Index
) -> None:
    """Merge a pair in all words, and update the counts and the index."""
    changes: defaultdict[Pair, int] = defaultdict(int)
    for number, occurrences in index.pop(pair).items():
        if occurrences < 1:
            continue
        word, count = vocabulary[number]
        merged, lost = merge_word(word, *pair)
        vocabulary[number] = merged, count
        for other in lost:
            changes[other] -= count
            index[other][number] -= 1
        for other in _pairs_with(pair[0] + pair[1], merged):
            changes[other] += count
            index[other][number] += 1
    counts[pair] = 0
    counts.add(changes)
    counts[pair] = 0


def merge_word(word: Word, first: str, second: str) -> tuple[Word, list[Pair]]:
    """Join all adjacent `first` and `second` from the left; return the word and its lost pairs.

    For example, (a, b, c, b, c, d) with b and c gives (a, bc, bc, d), and loses ab, cb and cd.
    """
    symbols: list[str] = []
    lost: list[Pair] = []
    start, last = 0, len(word) - 1
    merged_end = -1  # position after the previous merged pair
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
        if merged_end > 0 and merged_end != found:
            lost.append(word[merged_end - 1 : merged_end + 1])
        if found:
            lost.append(word[found - 1 : found + 1])
        symbols.append(first + second)
        start = merged_end = found + 2
    if 0 < merged_end <= last:
        lost.append(word[merged_end - 1 : merged_end + 1])
    return (*symbols, *word[start:]), lost


def _pairs_with(symbol: str, word: Word) -> list[Pair]:
    """Return the pairs of a word that contain a symbol, a pair of two such symbols only once.

    As in subword-nmt, a symbol of the same text that an earlier merge produced counts as new.
    """
    pairs: list[Pair] = []
    last = len(word) - 1
    for i, current in enumerate(word):
        if current == symbol:
            if i:
                pairs.append(word[i - 1 : i + 1])
            if i < last and word[i + 1] != symbol:
                pairs.append(word[i : i + 2])
    return pairs
