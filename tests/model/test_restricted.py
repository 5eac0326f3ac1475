"""§4, Table 1: which positions restricted self-attention attends to."""

import pytest
import torch

from aiayn_plugin.model.attention import MultiHeadAttention


@pytest.mark.parametrize("r", [1, 4, 5])
@pytest.mark.parametrize("causal", [False, True])
def test_weights_cover_the_neighbourhood(causal, r):
    torch.manual_seed(1)
    module = MultiHeadAttention(8, 2, 4, 4, causal=causal, neighbourhood=r).double()
    x = torch.randn(1, 30, 8).double()
    out, weights = module(x, need_weights=True)
    torch.testing.assert_close(out, module(x)[0], rtol=0, atol=1e-12)
    offset = torch.arange(30) - torch.arange(30)[:, None]  # j − i
    if causal:
        allowed = (offset > -r) & (offset <= 0)
    else:
        allowed = (offset >= -((r - 1) // 2)) & (offset <= r // 2)
    assert weights[:, :, ~allowed].eq(0).all() and weights[:, :, allowed].gt(0).all()


def test_neighbourhood_below_1_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        MultiHeadAttention(8, 2, 4, 4, neighbourhood=0)
