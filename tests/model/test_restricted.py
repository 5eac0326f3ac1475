"""§4, Table 1: restricted self-attention equals full attention under the same mask."""

import pytest
import torch

from aiayn_plugin.model.attention import MultiHeadAttention, scaled_dot_product_attention
from aiayn_plugin.model.restricted import causal_reach, centred_reach, restricted_attention


def allowed(i, j, r, causal):
    """Return whether position i sees j: i − r < j ≤ i, or −⌊(r−1)/2⌋ ≤ j − i ≤ ⌊r/2⌋."""
    return i - r < j <= i if causal else -((r - 1) // 2) <= j - i <= r // 2


@pytest.mark.parametrize("r", [1, 2, 3, 4, 7, 20, 50])
@pytest.mark.parametrize("n", [1, 15, 16, 17, 40])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [None, "left", "right"])
def test_equals_full_attention_under_the_mask(r, n, causal, padded):
    torch.manual_seed(1)
    q, k, v = (torch.randn(2, 3, n, d, dtype=torch.float64, requires_grad=True) for d in (4, 4, 5))
    padding = torch.zeros(2, n, dtype=torch.bool)
    if padded:
        amount = n // 2
        padding[1, :amount] = True
        padding = padding if padded == "left" else padding.flip(1)
    mask = torch.tensor(
        [
            [
                [i == j or allowed(i, j, r, causal) and not row[j] for j in range(n)]
                for i in range(n)
            ]
            for row in padding.tolist()
        ]
    )[:, None]
    reach = causal_reach(n, r) if causal else centred_reach(r)
    found = restricted_attention(q, k, v, reach, padding if padded else None)
    expected, _ = scaled_dot_product_attention(q, k, v, mask)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    slope = torch.randn_like(found)
    for a, b in zip(
        *(torch.autograd.grad(y, (q, k, v), slope) for y in (found, expected)), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_gradients():
    torch.manual_seed(1)
    inputs = [torch.randn(1, 2, 35, 2, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    assert torch.autograd.gradcheck(
        lambda q, k, v: restricted_attention(q, k, v, centred_reach(5)), inputs
    )


@pytest.mark.parametrize("causal", [False, True])
def test_weights_are_those_of_the_neighbourhood(causal):
    torch.manual_seed(1)
    module = MultiHeadAttention(8, 2, 4, 4, causal=causal, neighbourhood=4).double()
    x = torch.randn(1, 30, 8).double()
    out, weights = module(x, need_weights=True)
    torch.testing.assert_close(out, module(x)[0], rtol=0, atol=1e-12)
    seen = torch.tensor([[allowed(i, j, 4, causal) for j in range(30)] for i in range(30)])
    assert weights[:, :, ~seen].eq(0).all() and weights[:, :, seen].gt(0).all()


def test_a_neighbourhood_of_none_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        MultiHeadAttention(8, 2, 4, 4, neighbourhood=0)
