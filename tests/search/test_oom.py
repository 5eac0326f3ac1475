"""A batch that does not fit in memory is searched in halves."""

import pytest

from aiayn_plugin.errors import InputError
from aiayn_plugin.search.oom import BatchHalver


class LimitedMemory:
    """A search that runs out of memory above `limit` rows, and records the requested sizes."""

    def __init__(self, limit, message="CUDA out of memory. Tried to allocate 2 GiB"):
        self.limit, self.message, self.sizes = limit, message, []

    def __call__(self, rows):
        indices = list(range(rows.start, rows.stop))
        self.sizes.append(len(indices))
        if len(indices) > self.limit:
            raise RuntimeError(self.message)
        return indices


def test_halves_keep_the_order_and_warn_once(caplog):
    """Seven sentences split into 3 and 4; 3 into 1 and 2; 4 into 2 and 2."""
    halver, search = BatchHalver(), LimitedMemory(2)
    assert halver.search(search, slice(0, 7)) == list(range(7))
    assert search.sizes == [7, 3, 1, 2, 4, 2, 2]
    halver.search(search, slice(0, 7))
    (warning,) = [record.message for record in caplog.records]
    assert warning.startswith("out of memory: batches of 7 or more sentences")


def test_a_sentence_that_does_not_fit_is_reported_in_one_line():
    with pytest.raises(InputError, match="not enough memory to translate one sentence") as error:
        BatchHalver().search(LimitedMemory(0), slice(0, 3))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "message",
    [
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    ],
)
def test_other_messages_of_torch_about_memory_are_recognised(message):
    assert BatchHalver().search(LimitedMemory(1, message), slice(0, 2)) == [0, 1]


def test_other_errors_are_not_caught():
    search = LimitedMemory(1, "a shape is wrong")
    with pytest.raises(RuntimeError, match="a shape is wrong"):
        BatchHalver().search(search, slice(0, 2))
    assert search.sizes == [2]
