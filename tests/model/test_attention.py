"""§3.2 Attention against the formula, one query and one head at a time."""

import math

import pytest
import torch

from aiayn_plugin.model.attention import MultiHeadAttention, scaled_dot_product_attention


def attend_one_query(q, keys, values, allowed):
    """Return equation (1) for a single query, in plain Python."""
    scores = [
        sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(len(q)) if ok else -math.inf
        for k, ok in zip(keys, allowed, strict=True)
    ]
    exps = [math.exp(s - max(scores)) for s in scores]
    return [
        sum(e * v[i] for e, v in zip(exps, values, strict=True)) / sum(exps)
        for i in range(len(values[0]))
    ]


def attend_by_loops(module, x, memory, mask):
    """Return multi-head attention, one sentence, head and position at a time."""
    result = torch.empty(x.size(0), x.size(1), module.h * module.d_v, dtype=x.dtype)
    for b in range(x.size(0)):
        q, k, v = module.W_Q(x[b]), module.W_K(memory[b]), module.W_V(memory[b])
        for head in range(module.h):
            keys = slice(head * module.d_k, (head + 1) * module.d_k)
            out = slice(head * module.d_v, (head + 1) * module.d_v)
            for n in range(x.size(1)):
                result[b, n, out] = torch.tensor(
                    attend_one_query(
                        q[n, keys].tolist(), k[:, keys].tolist(), v[:, out].tolist(), mask[b][n]
                    ),
                    dtype=x.dtype,
                )
    return module.W_O(result)


@pytest.mark.parametrize("d_k, d_v", [(3, 3), (2, 5)])
@pytest.mark.parametrize("need_weights", [False, True])
def test_attention_equals_equation_1(d_k, d_v, need_weights):
    torch.manual_seed(1)
    module = MultiHeadAttention(d_model=6, h=2, d_k=d_k, d_v=d_v).double()
    x, memory = torch.randn(2, 4, 6).double(), torch.randn(2, 5, 6).double()
    # The second sentence ends with two padding positions.
    mask = torch.arange(5)[None] < torch.tensor([5, 3])[:, None]
    actual, weights = module(x, memory, ~mask, need_weights=need_weights)
    by_loops = attend_by_loops(module, x, memory, [[row.tolist()] * 4 for row in mask])
    torch.testing.assert_close(actual, by_loops, rtol=0, atol=1e-12)
    if need_weights:
        assert weights.shape == (2, 2, 4, 5)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 4).double())
        assert weights[1, :, :, 3:].eq(0).all()


@pytest.mark.parametrize("need_weights", [False, True])
def test_causal_attention_equals_equation_1(need_weights):
    torch.manual_seed(1)
    module = MultiHeadAttention(d_model=6, h=3, d_k=2, d_v=2, causal=True).double()
    x = torch.randn(1, 5, 6).double()
    actual, _ = module(x, need_weights=need_weights)
    by_loops = attend_by_loops(module, x, x, [[[j <= i for j in range(5)] for i in range(5)]])
    torch.testing.assert_close(actual, by_loops, rtol=0, atol=1e-12)


def test_dropout_acts_on_the_weights_in_training_only():
    torch.manual_seed(1)
    q, k, v = torch.randn(4, 6, 8), torch.randn(4, 6, 8), torch.eye(6).expand(4, 6, 6)
    weights, _ = scaled_dot_product_attention(q, k, v)
    dropped, _ = scaled_dot_product_attention(q, k, v, dropout=0.5)
    assert 0.3 < dropped.eq(0).float().mean() < 0.7
    torch.testing.assert_close(dropped, 2 * weights * dropped.ne(0))
    module = MultiHeadAttention(d_model=8, h=2, d_k=4, d_v=4, dropout=0.5)
    x = torch.randn(1, 6, 8)
    assert not torch.equal(module(x)[0], module(x)[0])
    module.eval()
    assert torch.equal(module(x)[0], module(x)[0])


def test_queries_keys_and_values_start_as_slices_of_glorot_matrices():
    torch.manual_seed(1)
    module = MultiHeadAttention(d_model=256, h=4, d_k=64, d_v=32)
    for projection, width in ((module.W_Q, 3 * 256), (module.W_V, 3 * 128), (module.W_O, 256)):
        inner = projection.weight.size(1)
        limit = math.sqrt(6 / (inner + width))
        assert limit * 0.99 < projection.weight.abs().max() <= limit
