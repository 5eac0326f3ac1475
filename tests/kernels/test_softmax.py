"""Softmax in bfloat16."""

import torch

from aiayn_plugin.kernels.softmax import softmax


def test_softmax_of_bfloat16_is_computed_in_float32():
    torch.manual_seed(1)
    scores = torch.randn(2, 3, 4, 50).bfloat16()
    scores[..., 40:] = -torch.inf
    actual = softmax(scores)
    assert actual.dtype == torch.bfloat16 and not actual[..., 40:].any()
    assert torch.equal(actual, scores.float().softmax(dim=-1).bfloat16())
