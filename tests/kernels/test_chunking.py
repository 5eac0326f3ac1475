"""Rows of logits per chunk."""

import pytest

from aiayn_plugin.kernels.chunking import rows_per_chunk


@pytest.mark.parametrize(
    "row_size, device, rows",
    [
        (37_000, "cpu", 226),  # 2^23 / 37,000 = 226.7
        (37_000, "cuda", 7_255),  # 2^28 / 37,000 = 7,255.0
        (37_000, "mps", 226),  # other devices use the CPU's limit
        (2**23, "cpu", 1),
        (2**23 + 1, "cpu", 1),
    ],
)
def test_rows_per_chunk(row_size, device, rows):
    assert rows_per_chunk(row_size, device) == rows
