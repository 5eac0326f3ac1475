"""§6.1 Sentences in batches of similar length, and chunks of a batch in threads."""

from threading import Thread

import pytest
import torch
from commands import after

from aiayn_plugin.search.batching import batches_by_length, search_by_length, search_in_threads


def test_a_batch_has_at_most_max_tokens_including_padding():
    assert list(batches_by_length([3, 9, 4, 8], 18)) == [[1, 3], [2, 0]]
    assert list(batches_by_length([3, 9, 4, 8], 1)) == [[1], [3], [2], [0]], "none is left out"
    assert list(batches_by_length([], 5)) == []
    lengths = torch.randint(1, 60, (500,), generator=torch.Generator().manual_seed(1)).tolist()
    batches = list(batches_by_length(lengths, 300))
    assert sorted(index for batch in batches for index in batch) == list(range(500))
    for batch, following in zip(batches, batches[1:], strict=False):
        longest = max(lengths[index] for index in batch)
        assert len(batch) * longest <= 300 < (len(batch) + 1) * longest
        assert min(lengths[index] for index in batch) >= lengths[following[0]]


def test_shorter_sentences_are_padded_on_the_left():
    batches = []

    def search(batch):
        batches.append(batch.tolist())
        return batch

    search_by_length(search, [torch.tensor([7, 2]), torch.tensor([5, 6, 2])], max_tokens=6)
    assert batches == [[[5, 6, 2], [1, 7, 2]]]


@pytest.mark.parametrize("sentences", [1, 63, 64, 97, 98])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_chunks_come_back_in_order(sentences, threads):
    source, calls = torch.arange(10, 20 + sentences), []

    def search(rows):
        calls.append(source[rows].tolist())
        return calls[-1]

    rows = slice(7, 7 + sentences)
    expected = source[rows].tolist()
    assert search_in_threads(search, threads, rows) == expected
    n = max(1, min(threads, sentences // 32))
    assert sorted(calls) == sorted(expected[i::n] for i in range(n))


def test_threads_share_the_cores():
    threads = []

    def search(rows):
        threads.append(torch.get_num_threads())
        return range(rows.start, rows.stop, rows.step)

    assert search_in_threads(search, 8, slice(0, 64)) == list(range(64))
    assert threads == [4, 4]


def test_threads_that_start_during_a_search_use_all_cores():
    """Such as those of a server that shares a Translator between requests."""
    before, numbers, late = torch.get_num_threads(), [], after(60)
    torch.set_num_threads(3)

    def search(rows):
        while numbers[-1:] != [3] and not late():
            thread = Thread(target=lambda: numbers.append(torch.get_num_threads()))
            thread.start()
            thread.join()
        assert torch.get_num_threads() == 4
        return range(rows.start, rows.stop, rows.step)

    try:
        search_in_threads(search, 8, slice(0, 64))
        assert numbers[-1] == torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
