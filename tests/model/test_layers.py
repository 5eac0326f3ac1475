"""§3.1, §3.3: the layers of the two stacks and their feed-forward network."""

import math
from functools import partial

import pytest
import torch

from aiayn_plugin.model.attention import MultiHeadAttention
from aiayn_plugin.model.layers import AddNorm, DecoderLayer, EncoderLayer, FeedForward


def test_layers_are_post_norm():
    torch.manual_seed(1)
    attention = partial(MultiHeadAttention, 8, 2, 4, 4)
    x, memory = torch.randn(2, 3, 8), torch.randn(2, 4, 8)

    def norm(y):
        centred = y - y.mean(-1, keepdim=True)
        return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()

    encoder = EncoderLayer(8, 12, 0.0, attention)
    y = norm(x + encoder.self_attention(x)[0])
    torch.testing.assert_close(encoder(x), norm(y + encoder.feed_forward(y)))
    decoder = DecoderLayer(8, 12, 0.0, attention)
    y = norm(x + decoder.self_attention(x)[0])
    y = norm(y + decoder.encoder_attention(y, memory)[0])
    actual, _ = decoder(x, memory)
    torch.testing.assert_close(actual, norm(y + decoder.feed_forward(y)))


def test_feed_forward_equals_equation_2():
    torch.manual_seed(1)
    module, x = FeedForward(3, 5), torch.randn(2, 4, 3)
    expected = (x @ module.W_1.weight.T + module.W_1.bias).clamp(min=0) @ module.W_2.weight.T
    torch.testing.assert_close(module(x), expected + module.W_2.bias)


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


def test_dropout_acts_on_the_sublayer_before_the_residual():
    module = AddNorm(8, dropout=1.0)
    x = torch.randn(2, 8)
    torch.testing.assert_close(module(x, torch.full((2, 8), 1e6)), module.norm(x))
