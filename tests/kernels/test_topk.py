"""§6.1: top-k of a row of scores, compared with torch's."""

import math

import pytest
import torch

from aiayn_plugin.kernels.topk import BLOCK, topk


@pytest.mark.parametrize("columns", [5, 4 * 5 * BLOCK - 1, 4 * 5 * BLOCK, 5000, 8007])
def test_topk_equals_torchs(columns):
    """With too few columns for blocks, with full blocks only, and with columns after the last."""
    scores = torch.randperm(3 * 4 * columns).view(3, 4, columns).double()
    expected = scores.topk(5)
    with torch.device("meta"):  # a program's default device
        values, indices = topk(scores, 5)
    assert torch.equal(values, expected.values) and torch.equal(indices, expected.indices)


@pytest.mark.parametrize("best", [[0, 1, 2, 3], [63, 64, 65, 4000], [4999, 4998, 4997, 4992]])
def test_best_columns_may_share_a_block_or_follow_the_last(best):
    scores = torch.randn(2, 5000)
    scores[:, best] = torch.tensor([40.0, 30.0, 20.0, 10.0])
    assert topk(scores, 4)[1].tolist() == [best, best]


def test_forbidden_columns_come_last():
    scores = torch.full((1, 5000), -math.inf)
    scores[0, [7, 4800]] = torch.tensor([-2.0, -1.0])
    values, indices = topk(scores, 4)
    assert values.tolist() == [[-1.0, -2.0, -math.inf, -math.inf]]
    assert indices[0, :2].tolist() == [4800, 7] and len(set(indices[0].tolist())) == 4


def test_nan_comes_first():
    """As in torch's topk, so that the search can report it."""
    scores = torch.zeros(1, 5000)
    scores[0, 4321] = math.nan
    values, indices = topk(scores, 2)
    assert values[0, 0].isnan() and indices[0, 0] == 4321
