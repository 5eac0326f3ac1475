"""§3.2 Attention: scaled dot-product attention and its multi-head form."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .errors import SettingError
from .neighbourhood import Reach, causal_reach, centred_reach, restricted_attention, visible
from .precision import for_products

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
    """x ↦ xW (+ b), Glorot uniform as one of `stacked` matrices of this size that make up a whole.

    Without a bias it has none at all, where nn.Linear has one that is None, which fairseq's trainer
    would take for a weight shared by the whole model, and log as such.
    """

    def __init__(self, inner: int, outer: int, stacked: int = 1, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outer, inner))
        gain = math.sqrt((inner + outer) / (inner + stacked * outer))
        nn.init.xavier_uniform_(self.weight, gain)
        if bias:
            self.bias = nn.Parameter(torch.zeros(outer))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, getattr(self, "bias", None))


class MultiHeadAttention(nn.Module):
    """§3.2.2: h heads of scaled dot-product attention, concatenated and projected by W^O.

    `dropout` acts on the attention weights (0 in the paper's translation models). `neighbourhood`
    is r of Table 1's restricted self-attention: each position sees r positions around it, or, where
    it is `causal`, the last r up to itself. With `recompute`, training keeps nothing for the
    backward pass but the inputs, and computes the rest there again.
    """

    def __init__(
        self,
        d_model: int,
        h: int,
        d_k: int,
        d_v: int,
        dropout: float = 0.0,
        bias: bool = False,
        causal: bool = False,
        neighbourhood: int | None = None,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        if neighbourhood is not None and neighbourhood < 1:
            raise SettingError(
                f"neighbourhood {neighbourhood} must be at least 1: a position sees itself"
            )
        self.h, self.d_k, self.d_v, self.dropout = h, d_k, d_v, dropout
        self.causal, self.neighbourhood, self.recompute = causal, neighbourhood, recompute
        # W^Q, W^K and W^V as the one matrix that they would make side by side: post-norm layers
        # learn faster from the smaller weights.
        self.W_Q = Projection(d_model, h * d_k, stacked=3, bias=bias)
        self.W_K = Projection(d_model, h * d_k, stacked=3, bias=bias)
        self.W_V = Projection(d_model, h * d_v, stacked=3, bias=bias)
        self.W_O = Projection(h * d_v, d_model, bias=bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        padding: Tensor | None = None,
        cache: Cache | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Let x (batch, n, d_model) attend to memory (batch, m, d_model), or to itself.

        padding: boolean (batch, m), True where the memory (or x itself) is padding, which nobody
        sees but itself. cache: for decoding one position at a time, the keys and values so far; it
        is filled and extended in place.
        Returns (batch, n, d_model) and, if asked for, the weights (batch, h, n, m), for which
        restricted attention too takes time and memory of n².
        """
        if self.recompute and torch.is_grad_enabled() and cache is None:
            return checkpoint(
                self._attend, x, memory, padding, None, need_weights,
                use_reentrant=False, preserve_rng_state=self.dropout > 0,
            )  # fmt: skip
        return self._attend(x, memory, padding, cache, need_weights)

    def _attend(
        self,
        x: Tensor,
        memory: Tensor | None,
        padding: Tensor | None,
        cache: Cache | None,
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        x = for_products(x)
        q = self._heads(self.W_Q(x))
        k, v = self._keys_values(x, memory, cache)
        n, dropout = q.size(2), self.dropout if self.training else 0.0
        reach = self._reach(n) if memory is None and cache is None else None
        weights = None
        if need_weights:
            mask = visible(n, k.size(2), padding, reach, q.device)
            out, weights = scaled_dot_product_attention(q, k, v, mask, dropout)
        elif reach is not None and n > 2 * (reach.before + reach.after + 1):
            out = restricted_attention(q, k, v, reach, padding, dropout)
        elif reach == causal_reach(n) and padding is None:
            out = F.scaled_dot_product_attention(q, k, v, None, dropout, is_causal=True)
        else:
            mask = visible(n, k.size(2), padding, reach, q.device)
            out = F.scaled_dot_product_attention(q, k, v, mask, dropout)
        return self.W_O(out.transpose(1, 2).flatten(2)), weights

    def _reach(self, n: int) -> Reach | None:
        """How far each of n positions sees; None where it sees all."""
        if self.causal:
            return causal_reach(n, self.neighbourhood)
        return centred_reach(self.neighbourhood) if self.neighbourhood is not None else None

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
        if memory is None and cache is not None and self.neighbourhood is not None:
            k, v = k[:, :, -self.neighbourhood :], v[:, :, -self.neighbourhood :]
        if cache is not None:
            cache["k"], cache["v"] = k, v
        return k, v
