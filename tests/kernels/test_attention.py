"""Every implementation of attention equals equation (1); long restricted sequences use blocks."""

import pytest
import torch
from reference import is_visible

from aiayn_plugin.kernels.attention import Window, attend, attend_in_blocks
from aiayn_plugin.model.attention import MultiHeadAttention, scaled_dot_product_attention
from aiayn_plugin.model.restricted import causal_window, centred_window


def pad(n, side):
    """Return the padding of two sentences: n // 2 positions of the second, on one side."""
    if side is None:
        return None
    padding = torch.zeros(2, n, dtype=torch.bool)
    padding[1, : n // 2] = True
    return padding if side == "left" else padding.flip(1)


def restate_mask(n, r, causal, padding):
    """Return the mask of restricted attention by its definition, (batch, 1, n, n)."""
    rows = [[False] * n] * 2 if padding is None else padding.tolist()
    mask = [
        [[i == j or is_visible(i, j, r, causal) and not row[j] for j in range(n)] for i in range(n)]
        for row in rows
    ]
    return torch.tensor(mask)[:, None]


def assert_same_with_gradients(actual, expected, inputs):
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
    grad_out = torch.randn_like(actual)
    for a, b in zip(
        *(torch.autograd.grad(x, inputs, grad_out, retain_graph=True) for x in (actual, expected)),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("r", "n"),
    [(None, 20), (1, 1), (4, 15), (16, 16), (4, 17), (3, 20), (7, 40), (20, 40), (50, 40)],
    ids=str,
)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [None, "left", "right"])
def test_every_implementation_equals_masked_attention(r, n, causal, padded):
    """Without a window, with a causal or a centred one, shorter or longer than the sequence."""
    torch.manual_seed(1)
    q, k, v = (torch.randn(2, 3, n, d, dtype=torch.float64, requires_grad=True) for d in (4, 4, 5))
    padding = pad(n, padded)
    if r is None and not causal:
        window, mask = None, None if padding is None else ~padding[:, None, None]
    else:
        window = causal_window(n, r) if causal else centred_window(r)
        mask = restate_mask(n, r, causal, padding)
    expected, _ = scaled_dot_product_attention(q, k, v, mask)
    assert_same_with_gradients(attend(q, k, v, padding, window, 0.0), expected, (q, k, v))
    if r is not None:
        actual = attend_in_blocks(q, k, v, window, padding)
        assert_same_with_gradients(actual, expected, (q, k, v))


@pytest.mark.parametrize("window", [None, Window(39, 0), Window(1, 1)], ids=str)
@pytest.mark.parametrize("padded", [None, "right"])
def test_every_choice_drops_weights(window, padded):
    torch.manual_seed(1)
    q, k = torch.randn(2, 2, 3, 40, 4)
    v = torch.eye(40).expand(2, 3, 40, 40)  # the output is the weights
    weights, dropped = (attend(q, k, v, pad(40, padded), window, p) for p in (0.0, 0.5))
    kept = dropped.ne(0)
    assert 0.4 < kept.sum() / weights.ne(0).sum() < 0.6
    torch.testing.assert_close(dropped[kept], 2 * weights[kept])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
def test_bfloat16_equals_float32_up_to_rounding_and_avoids_torchs_slow_kernel(causal, need_weights):
    torch.manual_seed(1)
    module = MultiHeadAttention(d_model=32, h=2, d_k=16, d_v=16, causal=causal)
    padding = torch.arange(7)[None] >= torch.tensor([7, 4])[:, None]
    x = torch.randn(2, 7, 32, requires_grad=True)
    results = []
    for enabled in (False, True):
        autocast = torch.autocast("cpu", torch.bfloat16, enabled=enabled)
        with autocast, torch.profiler.profile() as profile:
            out, weights = module(x, padding=padding, need_weights=need_weights)
            (gradient,) = torch.autograd.grad(out.float().cos().sum(), x)
        results.append((out.float(), gradient))
        assert (weights is None) is not need_weights
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0.03)
    assert not any("flash" in event.key for event in profile.key_averages())


@pytest.mark.parametrize(
    "settings, autocast",
    [({}, True), ({"neighbourhood": 4}, False), ({"neighbourhood": 4, "causal": True}, False)],
)
def test_long_sequences_store_no_n_by_n_matrix(settings, autocast):
    module = MultiHeadAttention(d_model=8, h=1, d_k=8, d_v=8, **settings)
    saved = []
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        with torch.autograd.graph.saved_tensors_hooks(saved.append, lambda tensor: tensor):
            module(torch.randn(1, 600, 8))
    assert max(tensor.numel() for tensor in saved) < 600 * 600
