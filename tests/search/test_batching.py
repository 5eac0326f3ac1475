"""§6.1 Sentences in batches, and a batch in parts."""

import pytest
import torch

from aiayn_plugin.errors import InputError
from aiayn_plugin.search.batching import PART, batches, in_parts, padded


def test_batches_hold_at_most_so_many_tokens_with_their_padding():
    assert list(batches([3, 9, 4, 8], 18)) == [[1, 3], [2, 0]]
    assert list(batches([3, 9, 4, 8], 1)) == [[1], [3], [2], [0]], "a sentence is never left out"
    assert list(batches([], 5)) == []
    lengths = torch.randint(1, 60, (500,), generator=torch.Generator().manual_seed(1)).tolist()
    found = list(batches(lengths, 300))
    assert sorted(number for batch in found for number in batch) == list(range(500))
    for batch, following in zip(found, found[1:], strict=False):
        longest = max(lengths[number] for number in batch)
        assert len(batch) * longest <= 300 < (len(batch) + 1) * longest
        assert min(lengths[number] for number in batch) >= lengths[following[0]]


def test_padding_stands_before_the_shorter_ones():
    found = padded([torch.tensor([5, 6, 2]), torch.tensor([7, 2])], padding=1)
    assert found.tolist() == [[5, 6, 2], [1, 7, 2]]


@pytest.mark.parametrize("sentences", [1, PART, 2 * PART, 2 * PART + 3, 5 * PART])
def test_parts_come_back_in_their_order(sentences):
    source = torch.arange(sentences)[:, None]

    def find(batch):
        sizes.append(len(batch["src_tokens"]))
        return [[{"tokens": row}] for row in batch["src_tokens"]]

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for separable in (True, False):
            sizes: list[int] = []
            found = in_parts(find, {"src_tokens": source}, separable)
            assert torch.equal(torch.stack([of["tokens"] for (of,) in found]), source)
            assert len(sizes) == (2 if separable and sentences >= 2 * PART else 1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_a_sentence_without_a_hypothesis_is_an_error():
    with pytest.raises(InputError, match="no hypothesis for sentence 1 of a batch"):
        in_parts(lambda batch: [[{}], []], {"src_tokens": torch.zeros(2, 3)}, True)
