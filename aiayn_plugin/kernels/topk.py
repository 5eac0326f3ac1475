"""Top-k over a vocabulary of thousands of tokens."""

import torch
from torch import Tensor

#: Columns per block.
BLOCK = 64


def topk(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest scores of each row (…, V), in descending order, and their columns.

    The same result as scores.topk(k), but faster on a CPU: only the k blocks of columns with the
    largest maxima are searched, since no other block can hold one of the k largest scores. For
    example, with k = 2 and blocks of 2 columns:

        column     0  1    2  3    4  5
        score      9  1    4  7    3  8        maxima 9, 7 and 8

    The top 2 are in the first and the last block: 9 and 8, in columns 0 and 5.
    """
    columns = scores.size(-1)
    blocks = columns // BLOCK
    if scores.device.type != "cpu" or blocks < 4 * k:
        return scores.topk(k, dim=-1)
    end = blocks * BLOCK  # where the last full block ends
    maxima = scores[..., :end].unflatten(-1, (blocks, BLOCK)).amax(dim=-1)
    best_blocks = maxima.topk(k, dim=-1, sorted=False).indices
    column = torch.arange(columns, device=scores.device)
    in_blocks = (best_blocks[..., None] * BLOCK + column[:BLOCK]).flatten(-2)
    after_blocks = column[end:].expand(*scores.shape[:-1], -1)
    candidates = torch.cat((in_blocks, after_blocks), dim=-1)
    best = scores.gather(-1, candidates).topk(k, dim=-1)
    return best.values, candidates.gather(-1, best.indices)
