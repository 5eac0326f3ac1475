"""§3.2 Attention: its weights, its dropout and its initialisation."""

import math

import pytest
import torch

from aiayn_plugin.model.attention import MultiHeadAttention, scaled_dot_product_attention


@pytest.mark.parametrize("causal", [False, True])
def test_the_output_is_the_same_with_weights(causal):
    """test_equations.py checks the output without weights against loops."""
    torch.manual_seed(1)
    module = MultiHeadAttention(d_model=6, h=2, d_k=2, d_v=5, causal=causal).double()
    x, padding = torch.randn(2, 5, 6).double(), torch.arange(5) >= torch.tensor([[5], [3]])
    output, weights = module(x, padding=padding, need_weights=True)
    torch.testing.assert_close(output, module(x, padding=padding)[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 5).double())
    assert weights[1, :, :3, 3:].eq(0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])  # fused and equation (1)
def test_dropout_acts_on_the_weights_in_training_only(dtype):
    torch.manual_seed(1)
    q, k, v = torch.randn(4, 6, 8), torch.randn(4, 6, 8), torch.eye(6).expand(4, 6, 6)
    weights, _ = scaled_dot_product_attention(q, k, v)
    dropped, _ = scaled_dot_product_attention(q, k, v, dropout=0.5)
    assert 0.3 < dropped.eq(0).float().mean() < 0.7
    torch.testing.assert_close(dropped, 2 * weights * dropped.ne(0))
    module = MultiHeadAttention(d_model=8, h=2, d_k=4, d_v=4, dropout=0.5).to(dtype)
    x = torch.randn(1, 6, 8, dtype=dtype)
    assert not torch.equal(module(x)[0], module(x)[0])
    module.eval()
    assert torch.equal(module(x)[0], module(x)[0])


def test_queries_keys_and_values_start_as_slices_of_glorot_matrices():
    torch.manual_seed(1)
    module = MultiHeadAttention(d_model=256, h=4, d_k=64, d_v=32)
    widths = {module.W_Q: 3 * 256, module.W_K: 3 * 256, module.W_V: 3 * 128, module.W_O: 256}
    for projection, width in widths.items():
        inner = projection.weight.size(1)
        limit = math.sqrt(6 / (inner + width))
        assert limit * 0.99 < projection.weight.abs().max() <= limit
