"""§3.1, §3.3: the layers of the two stacks and their feed-forward network."""

import math
from functools import partial

import pytest
import torch

from aiayn_plugin.model.attention import MultiHeadAttention
from aiayn_plugin.model.layers import DecoderLayer, FeedForward


@pytest.mark.parametrize("gain", [1.0, 0.5])
def test_the_feed_forward_network_starts_as_glorot_matrices(gain):
    torch.manual_seed(1)
    module = FeedForward(64, 256, gain)
    bound = gain * math.sqrt(6 / (64 + 256))
    for layer in (module.W_1, module.W_2):
        assert 0.99 * bound < layer.weight.abs().max() <= bound
        assert not layer.bias.any()


def test_layer_gradients():
    torch.manual_seed(1)
    layer = DecoderLayer(4, 6, 0.0, partial(MultiHeadAttention, 4, 2, 2, 2)).double()
    inputs = [torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(lambda x, memory: layer(x, memory)[0], inputs)
