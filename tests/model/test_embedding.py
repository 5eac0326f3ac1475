"""§3.4 Embeddings and softmax."""

import pytest
import torch

from aiayn_plugin.model.embedding import ScaledEmbedding, score_rows


def test_embeddings_are_scaled_and_padding_is_zero():
    torch.manual_seed(1)
    embedding = ScaledEmbedding(5000, 64, padding_idx=1)
    tokens = torch.tensor([[7, 1, 9]])
    torch.testing.assert_close(embedding(tokens)[0, 0], 8 * embedding.weight[7])
    assert embedding(tokens)[0, 1].eq(0).all()
    assert embedding.weight.std().item() == pytest.approx(64**-0.5, rel=0.02)


@pytest.mark.parametrize(
    "row_size, device, rows",
    [
        (37_000, "cpu", 226),  # 2^23 / 37,000 = 226.7
        (37_000, "cuda", 7_255),  # 2^28 / 37,000 = 7,255.0
        (37_000, "mps", 226),  # a device without a number of its own
        (2**23, "cpu", 1),
        (2**23 + 1, "cpu", 1),
    ],
)
def test_as_many_rows_of_scores_as_a_device_computes_at_once(row_size, device, rows):
    assert score_rows(row_size, device) == rows
