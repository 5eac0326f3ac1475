"""§3.4 Embeddings and softmax."""

import pytest
import torch

from aiayn_plugin.model.embedding import ScaledEmbedding


def test_embeddings_are_scaled_and_padding_is_zero():
    torch.manual_seed(1)
    embedding = ScaledEmbedding(5000, 64, padding_idx=1)
    tokens = torch.tensor([[7, 1, 9]])
    torch.testing.assert_close(embedding(tokens)[0, 0], 8 * embedding.weight[7])
    assert embedding(tokens)[0, 1].eq(0).all()
    assert embedding.weight.std().item() == pytest.approx(64**-0.5, rel=0.02)
