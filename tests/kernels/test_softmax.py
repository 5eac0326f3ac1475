"""Softmax over attention scores, compared with torch's in float64."""

import pytest
import torch

from aiayn_plugin.kernels.softmax import softmax


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-6), (torch.bfloat16, 4e-3)])
@pytest.mark.parametrize("n", [1, 3, 4, 15, 16, 17, 63, 64])
def test_rows_of_any_length_with_gradients(n, dtype, tolerance):
    """Also with masked scores; one row has all but its last score masked."""
    torch.manual_seed(n)
    scores = 3 * torch.randn(2, 5, n)
    scores[0, 0, :-1] = scores[1, :, : n // 2] = -torch.inf
    scores = scores.to(dtype).requires_grad_()
    exact = scores.detach().double().requires_grad_()
    upstream = torch.randn(2, 5, n).to(dtype)
    actual, expected = softmax(scores), exact.softmax(dim=-1)
    assert actual.dtype == dtype and actual.shape == scores.shape
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=tolerance)
    with torch.no_grad():  # which takes a different path
        torch.testing.assert_close(softmax(scores).double(), expected, rtol=0, atol=tolerance)
    actual.backward(upstream)
    expected.backward(upstream.double())
    torch.testing.assert_close(scores.grad.double(), exact.grad, rtol=0, atol=8 * tolerance)


def test_bfloat16_scores_are_summed_in_float32():
    torch.manual_seed(1)
    scores = torch.randn(3, 20, dtype=torch.bfloat16)
    assert torch.equal(softmax(scores), scores.float().softmax(dim=-1).bfloat16())
