"""The largest of many scores, for a vocabulary of thousands of tokens."""

import torch
from torch import Tensor

#: Neighbouring columns of scores of which only the largest is looked at first.
BLOCK = 64


def largest(scores: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the n largest scores of each row (…, V), largest first, and their columns: (…, n).

    As scores.topk(n), which takes 33 µs for the 8 largest of 37,000 on a core of an EPYC (Zen 5);
    this takes 9. It looks only into the n blocks of columns with the largest maxima: no score
    elsewhere is larger than any of these n. For example, n = 2 and blocks of 2:

        column     0  1    2  3    4  5
        score      9  1    4  7    3  8        maxima 9, 7 and 8

    The 2 largest are in the first and the last block: 9 and 8, in columns 0 and 5.
    """
    columns = scores.size(-1)
    blocks = columns // BLOCK
    if scores.device.type != "cpu" or blocks < 4 * n:
        return scores.topk(n, dim=-1)
    whole = blocks * BLOCK
    maxima = scores[..., :whole].unflatten(-1, (blocks, BLOCK)).amax(dim=-1)
    block = maxima.topk(n, dim=-1, sorted=False).indices
    inside = (block[..., None] * BLOCK + torch.arange(BLOCK)).flatten(-2)
    rest = torch.arange(whole, columns).expand(*scores.shape[:-1], -1)
    column = torch.cat((inside, rest), dim=-1)
    best = scores.gather(-1, column).topk(n, dim=-1)
    return best.values, column.gather(-1, best.indices)
