"""§6.1: the largest scores of a row, against torch's topk."""

import math

import pytest
import torch

from aiayn_plugin.kernels.topk import BLOCK, topk


@pytest.mark.parametrize("columns", [5, 4 * 5 * BLOCK - 1, 4 * 5 * BLOCK, 5000, 8007])
def test_the_largest_are_topks(columns):
    """Few columns, whole blocks alone, and some columns more."""
    scores = torch.randperm(3 * 4 * columns).view(3, 4, columns).double()
    expected = scores.topk(5)
    values, found = topk(scores, 5)
    assert torch.equal(values, expected.values) and torch.equal(found, expected.indices)


@pytest.mark.parametrize("best", [[0, 1, 2, 3], [63, 64, 65, 4000], [4999, 4998, 4997, 4992]])
def test_neighbours_are_found(best):
    """The largest may all be in one block, or after the last whole one."""
    scores = torch.randn(2, 5000)
    scores[:, best] = torch.tensor([40.0, 30.0, 20.0, 10.0])
    assert topk(scores, 4)[1].tolist() == [best, best]


def test_where_few_columns_are_allowed_the_others_come_last():
    scores = torch.full((1, 5000), -math.inf)
    scores[0, [7, 4800]] = torch.tensor([-2.0, -1.0])
    values, found = topk(scores, 4)
    assert values.tolist() == [[-1.0, -2.0, -math.inf, -math.inf]]
    assert found[0, :2].tolist() == [4800, 7] and len(set(found[0].tolist())) == 4


def test_scores_that_are_no_numbers_come_first():
    """As by topk: then the search says so."""
    scores = torch.zeros(1, 5000)
    scores[0, 4321] = math.nan
    values, found = topk(scores, 2)
    assert values[0, 0].isnan() and found[0, 0] == 4321
