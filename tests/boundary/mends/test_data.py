"""The mends of fairseq's batches."""

import time

import pytest
from fairseq.data.iterators import BufferedIterator

from aiayn_plugin.boundary.mends.data import finish_data_threads, keep_every_sentence


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
