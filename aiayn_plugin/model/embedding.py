"""§3.4 Embeddings and softmax: one matrix for both embeddings and the pre-softmax projection."""

import math

from torch import Tensor, nn

#: Elements of the positions × vocabulary matrix that are computed at once: little memory (2^23
#: numbers are 34 MB, 2^28 are 1.1 GB), and on a CPU enough rows to be worth reading the projection
#: for. With a vocabulary of 37,000 these are 226; with 113 the loss takes 1.3 times as long in
#: bfloat16 and 1.1 times in float32, with 28 more than twice.
SCORES_AT_ONCE = {"cpu": 2**23, "cuda": 2**28}


class ScaledEmbedding(nn.Embedding):
    """Token embeddings multiplied by √d_model; the row of the padding symbol stays zero."""

    def __init__(self, vocabulary: int, d_model: int, padding_idx: int) -> None:
        super().__init__(vocabulary, d_model, padding_idx)
        self.padding = padding_idx
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.weight, std=d_model**-0.5)
        nn.init.zeros_(self.weight[padding_idx])

    def forward(self, tokens: Tensor) -> Tensor:
        """Map token numbers (batch, n) to (batch, n, d_model)."""
        return self.scale * super().forward(tokens)


def score_rows(row_size: int, device: str) -> int:
    """Return how many rows of row_size scores to compute at once, at least 1.

    With a vocabulary of 37,000 on a CPU that is 8,388,608 // 37,000 = 226 positions.
    """
    return max(1, SCORES_AT_ONCE.get(device, SCORES_AT_ONCE["cpu"]) // row_size)
