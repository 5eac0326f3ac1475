"""§3.3: the feed-forward network."""

import math

import pytest
import torch

from aiayn_plugin.model.layers import FeedForward


@pytest.mark.parametrize("gain", [1.0, 0.5])
def test_the_feed_forward_network_starts_as_glorot_matrices(gain):
    torch.manual_seed(1)
    module = FeedForward(64, 256, gain)
    bound = gain * math.sqrt(6 / (64 + 256))
    for layer in (module.W_1, module.W_2):
        assert 0.99 * bound < layer.weight.abs().max() <= bound
        assert not layer.bias.any()
