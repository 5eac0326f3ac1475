"""The size of chunks of logits: the whole positions × vocabulary matrix might not fit in memory."""

#: Logits per chunk: 34 MB on a CPU and 1.1 GB on a GPU in float32. Larger chunks
#: take more memory; smaller ones read the projection matrix too often.
CHUNK_SIZES = {"cpu": 2**23, "cuda": 2**28}


def rows_per_chunk(row_size: int, device: str) -> int:
    """Return the number of rows of row_size logits to compute at once, at least 1.

    With a vocabulary of 37,000 on a CPU the result is 8,388,608 // 37,000 = 226.
    """
    return max(1, CHUNK_SIZES.get(device, CHUNK_SIZES["cpu"]) // row_size)
