"""§3.2 Attention: scaled dot-product attention and its multi-head form."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

#: Keys and values of the positions already seen, each (batch, h, length, d_k or d_v).
Cache = dict[str, Tensor]


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Equation (1), step by step: softmax(QKᵀ/√d_k)V.

    q is (…, n, d_k), k (…, m, d_k), v (…, m, d_v); mask is boolean, broadcastable to (…, n, m),
    True where position n may attend to m. Every row of the mask needs one True.
    Returns the output (…, n, d_v) and the weights (…, n, m) before dropout.
    """
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1)
    return F.dropout(weights, dropout) @ v, weights


class Projection(nn.Module):
    """x ↦ xW, Glorot uniform as one of `stacked` matrices of this size that make up a whole.

    It has no bias at all, where nn.Linear has one that is None, which fairseq's trainer would take
    for a weight shared by the whole model, and log as such.
    """

    def __init__(self, inner: int, outer: int, stacked: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outer, inner))
        gain = math.sqrt((inner + outer) / (inner + stacked * outer))
        nn.init.xavier_uniform_(self.weight, gain)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)


class MultiHeadAttention(nn.Module):
    """§3.2.2: h heads of scaled dot-product attention, concatenated and projected by W^O.

    `dropout` acts on the attention weights (0 in the paper's translation models).
    """

    def __init__(self, d_model: int, h: int, d_k: int, d_v: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.h, self.d_k, self.d_v, self.dropout = h, d_k, d_v, dropout
        # W^Q, W^K and W^V as the one matrix that they would make side by side: post-norm layers
        # learn faster from the smaller weights.
        self.W_Q = Projection(d_model, h * d_k, stacked=3)
        self.W_K = Projection(d_model, h * d_k, stacked=3)
        self.W_V = Projection(d_model, h * d_v, stacked=3)
        self.W_O = Projection(h * d_v, d_model)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
        cache: Cache | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Let x (batch, n, d_model) attend to memory (batch, m, d_model), or to itself.

        mask: boolean, broadcastable to (batch, h, n, m), True where attending is allowed.
        causal: position i sees only positions up to i. cache: for decoding one position at a
        time, the keys and values so far; it is filled and extended in place.
        Returns (batch, n, d_model) and, if asked for, the weights (batch, h, n, m).
        """
        q = self._heads(self.W_Q(x))
        k, v = self._keys_values(x, memory, cache)
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            if causal:
                below = torch.ones(q.size(2), k.size(2), dtype=torch.bool, device=q.device).tril()
                mask = below if mask is None else mask & below
            out, weights = scaled_dot_product_attention(q, k, v, mask, dropout)
        else:
            out = F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=causal)
        return self.W_O(out.transpose(1, 2).flatten(2)), weights

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.h, -1)).transpose(1, 2)  # (batch, h, n, d_k or d_v)

    def _keys_values(
        self, x: Tensor, memory: Tensor | None, cache: Cache | None
    ) -> tuple[Tensor, Tensor]:
        if cache and memory is not None:  # the memory does not change: computed once
            return cache["k"], cache["v"]
        source = x if memory is None else memory
        k, v = self._heads(self.W_K(source)), self._heads(self.W_V(source))
        if cache:
            k, v = torch.cat((cache["k"], k), dim=2), torch.cat((cache["v"], v), dim=2)
        if cache is not None:
            cache["k"], cache["v"] = k, v
        return k, v
