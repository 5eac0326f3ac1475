"""A batch that memory is too small for is translated in halves."""

import pytest
import torch

from aiayn_plugin.errors import InputError
from aiayn_plugin.search.oom import in_halves


def batch(sentences, with_id=True):
    """Return a batch whose sentence i has the only token 10 + i."""
    tokens = 10 + torch.arange(sentences)[:, None]
    net_input = {"src_tokens": tokens, "src_lengths": torch.ones(sentences)}
    return {"net_input": net_input, **({"id": torch.arange(sentences)} if with_id else {})}


class Memory:
    """A translation for which memory holds at most so many sentences; `asked` has all sizes."""

    def __init__(self, most, message="CUDA out of memory. Tried to allocate 2 GiB"):
        self.most, self.message, self.asked = most, message, []

    def __call__(self, sample, prefix):
        tokens = sample["net_input"]["src_tokens"][:, 0].tolist()
        self.asked.append(len(tokens))
        if len(tokens) > self.most:
            raise RuntimeError(self.message)
        numbers = sample["id"].tolist() if "id" in sample else [None] * len(tokens)
        prefixes = prefix[:, 0].tolist() if prefix is not None else [None] * len(tokens)
        assert len(sample["net_input"]["src_lengths"]) == len(tokens)
        return list(zip(tokens, numbers, prefixes, strict=True))


@pytest.mark.parametrize("with_id", [True, False])
@pytest.mark.parametrize("with_prefix", [True, False])
def test_halves_keep_order_numbers_and_prefixes(with_id, with_prefix):
    """Seven sentences are 3 and 4; 3 are 1 and 2; 4 are 2 and 2."""
    prefix = 20 + torch.arange(7)[:, None] if with_prefix else None
    halved, memory = [], Memory(most=2)
    found = in_halves(memory, batch(7, with_id), prefix, halved.append)
    assert found == [
        (10 + i, i if with_id else None, 20 + i if with_prefix else None) for i in range(7)
    ]
    assert memory.asked == [7, 3, 1, 2, 4, 2, 2] and halved == [7, 3, 4]


def test_a_batch_that_fits_is_translated_at_once():
    halved, memory = [], Memory(most=7)
    assert len(in_halves(memory, batch(7), None, halved.append)) == 7
    assert memory.asked == [7] and halved == []


def test_one_sentence_that_does_not_fit_is_one_line():
    with pytest.raises(InputError, match="not enough memory to translate one sentence") as error:
        in_halves(Memory(most=0), batch(3), None, lambda size: None)
    assert "\n" not in str(error.value)


def test_the_memory_of_a_cpu_runs_out_in_other_words():
    memory = Memory(1, "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
    assert len(in_halves(memory, batch(2), None, lambda size: None)) == 2


def test_other_errors_are_not_caught():
    memory = Memory(1, "a shape is wrong")
    with pytest.raises(RuntimeError, match="a shape is wrong"):
        in_halves(memory, batch(2), None, lambda size: None)
    assert memory.asked == [2]
