"""§3.5 Positional encoding against the formulas."""

import pytest
import torch
from fairseq.modules import SinusoidalPositionalEmbedding
from reference import sinusoid

from aiayn_plugin.model.positions import SinusoidalPositions, fairseq_sinusoids, sinusoids


def test_sinusoids_equal_their_formula():
    expected = torch.stack([sinusoid(pos, 10) for pos in range(50)])
    torch.testing.assert_close(sinusoids(50, 10), expected, rtol=0, atol=1e-12)


def test_odd_d_model_is_refused():
    with pytest.raises(ValueError, match="even d_model"):
        sinusoids(3, 7)


@pytest.mark.parametrize("n, d_model", [(1, 4), (50, 10), (2000, 512)])
def test_fairseq_sinusoids_equal_fairseqs_exactly(n, d_model):
    expected = SinusoidalPositionalEmbedding.get_embedding(n + 2, d_model)[2:]
    assert torch.equal(fairseq_sinusoids(n, d_model), expected)


def test_table_grows_with_the_input():
    module = SinusoidalPositions(6)
    actual = module(torch.tensor([[0, 599, 2999]]), 3000)
    expected = sinusoids(3000, 6)[[0, 599, 2999]].float()
    torch.testing.assert_close(actual[0], expected, rtol=0, atol=0)
