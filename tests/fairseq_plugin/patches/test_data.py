"""The mends of fairseq's batches."""

import time

import pytest
import torch
from fairseq.data.iterators import BufferedIterator
from models import dictionary

from aiayn_plugin.fairseq_plugin.patches.data import finish_data_threads, keep_every_sentence


def test_batches_need_be_no_multiple_of_eight():
    options = {"required_batch_size_multiple": 8, "seed": 1}
    keep_every_sentence(options)
    assert options == {"required_batch_size_multiple": 1, "seed": 1}


class SlowBatches(list):
    """Batches of which each takes 50 ms to make."""

    def __iter__(self):
        for batch in super().__iter__():
            time.sleep(0.05)
            yield batch


@pytest.mark.parametrize("size, batches", [(2, 1000), (1000, 1000), (5, 3)])
def test_no_thread_makes_batches_when_python_ends(size, batches):
    buffered = BufferedIterator(size, SlowBatches(range(batches)))
    assert next(buffered) == 0
    finish_data_threads()
    assert not buffered._consumer.is_alive()


class Looks(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts the looks at single numbers of tensors, each of which would wait for a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*args, **(kwargs or {}))


def test_text_of_tokens_waits_for_no_number():
    words, tokens = dictionary(30), torch.tensor([5, 3, 9, 2])
    with Looks() as looks:
        assert words.string(tokens) == "w1 <unk> w5"
        assert words.string(tokens, escape_unk=True, include_eos=True) == "w1 <<unk>> w5 </s>"
        assert words.string(torch.stack((tokens, tokens))) == "w1 <unk> w5\nw1 <unk> w5"
    assert looks.count == 0
