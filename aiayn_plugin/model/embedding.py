"""§3.4 Embeddings: the matrix that both embeddings and the pre-softmax projection can share."""

import math

from torch import Tensor, nn


class ScaledEmbedding(nn.Embedding):
    """Token embeddings multiplied by √d_model; the padding symbol's row is initially zero.

    The lookup gives that row no gradient, but a projection that shares the matrix does: the softmax
    over the vocabulary includes the padding symbol. Padding positions are masked in any case.
    """

    def __init__(self, vocabulary: int, d_model: int, padding_idx: int) -> None:
        super().__init__(vocabulary, d_model, padding_idx)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.weight, std=d_model**-0.5)
        nn.init.zeros_(self.weight[padding_idx])

    def forward(self, tokens: Tensor) -> Tensor:
        """Map token IDs (batch, n) to (batch, n, d_model)."""
        return self.scale * super().forward(tokens)
