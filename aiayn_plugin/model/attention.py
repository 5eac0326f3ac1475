"""§3.2 Attention: scaled dot-product attention and its multi-head form."""

import math
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..errors import InputError
from ..kernels.autocast import autocast_once
from ..kernels.linear import linear
from .restricted import (
    Reach,
    causal_reach,
    centred_reach,
    restricted_attention,
    visible,
)


class AttentionCache(Protocol):
    """What an attention sub-layer keeps while decoding (cache.py)."""

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Return the queries of x (batch, n, d_model), all keys and values so far, and the mask."""


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Equation (1), step by step: softmax(QKᵀ/√d_k)V.

    q is (…, n, d_k), k (…, m, d_k), v (…, m, d_v); mask is broadcastable to (…, n, m): either
    boolean, True where position n may attend to m, or numbers that are added to the scores, 0 and
    −∞. Every row of the mask needs one position that may be seen.
    Returns the output (…, n, d_v) and the weights (…, n, m) before dropout.
    """
    # q has fewer elements than the scores, and a product that is √d_k times smaller is further from
    # float16's limit.
    scores = (q / math.sqrt(q.size(-1))) @ k.transpose(-2, -1)
    if mask is not None:
        scores += additive(mask, scores) if mask.dtype == torch.bool else mask
    weights = softmax(scores)
    return F.dropout(weights, dropout) @ v, weights


def softmax(scores: Tensor) -> Tensor:
    """Return the softmax over the last dimension, in the precision of the scores.

    torch's for bfloat16 takes three times as long on a CPU as the one for float32 and both changes
    of precision. A training would keep the float32 too, which costs more than it saves from rows of
    64 on.
    """
    short = scores.size(-1) < 64 or not torch.is_grad_enabled()
    if short and scores.dtype == torch.bfloat16 and scores.device.type == "cpu":
        return scores.float().softmax(dim=-1).to(scores.dtype)
    return scores.softmax(dim=-1)


def additive(mask: Tensor, like: Tensor) -> Tensor:
    """Return 0 where a boolean mask is True and −∞ elsewhere, in the precision of `like`."""
    zeros = torch.zeros(mask.shape, dtype=like.dtype, device=mask.device)
    return zeros.masked_fill_(~mask, -math.inf)


def heads(x: Tensor, h: int) -> Tensor:
    """Split (batch, n, h·d) into the heads (batch, h, n, d)."""
    return x.unflatten(-1, (h, -1)).transpose(1, 2)


def short_on_gpu(q: Tensor) -> bool:
    """Whether attention without a mask is slower than with one, for queries (batch, h, n, d_k).

    Without a mask torch takes flash attention, which works in blocks of 128 positions. On an H100,
    25,000 tokens in sentences of 31 take 0.89 ms without a mask and 0.39 ms with one, forward and
    backward; in sentences of 63, 0.53 and 0.31 ms; of 96, 0.42 and 0.44 ms.
    """
    return q.is_cuda and q.size(2) < 80


def fused_is_slow(q: Tensor, k: Tensor) -> bool:
    """Whether torch's fused attention is slower than equation (1), step by step.

    It is on a CPU in bfloat16, above all its backward pass: base's 2,500 tokens in sentences of 28
    take 45 ms fused and 12 ms step by step, forward and backward on two cores (avx512_bf16); in
    sentences of 448, 76 and 38 ms. There each weight takes memory, which is little up to 512.
    """
    on_cpu = q.device.type == "cpu" and q.dtype == torch.bfloat16
    return on_cpu and q.size(2) * k.size(2) <= 512**2


class Projection(nn.Module):
    """x ↦ xW, or xW + b with a bias.

    The initialisation is Glorot's uniform for a matrix that `stacked` such W make up side by side.
    """

    def __init__(self, inner: int, outer: int, stacked: int = 1, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outer, inner))
        gain = math.sqrt((inner + outer) / (inner + stacked * outer))
        nn.init.xavier_uniform_(self.weight, gain)
        # Without a bias this is a plain attribute. nn.Linear registers a parameter that is None;
        # fairseq's trainer takes all of those for one shared weight, and logs each.
        self.bias = nn.Parameter(torch.zeros(outer)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


class MultiHeadAttention(nn.Module):
    """§3.2.2: h heads of scaled dot-product attention, concatenated and projected by W^O.

    `dropout` acts on the attention weights (0 in the paper's translation models). `neighbourhood`
    is r of Table 1's restricted self-attention: each position sees r positions around it; if it is
    `causal`, the last r up to itself. With `recompute`, training keeps nothing but the inputs for
    the backward pass, and computes the rest again there.
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
            raise InputError(
                f"neighbourhood {neighbourhood} must be at least 1: a position sees itself"
            )
        self.h, self.d_k, self.d_v, self.dropout = h, d_k, d_v, dropout
        self.causal, self.neighbourhood, self.recompute = causal, neighbourhood, recompute
        # They start as three parts of one Glorot matrix. For base the bound is √(6/(512 + 1536)) =
        # 0.054, where each alone would have √(6/1024) = 0.077: post-norm layers learn faster from
        # the smaller weights.
        self.W_Q = Projection(d_model, h * d_k, stacked=3, bias=bias)
        self.W_K = Projection(d_model, h * d_k, stacked=3, bias=bias)
        self.W_V = Projection(d_model, h * d_v, stacked=3, bias=bias)
        self.W_O = Projection(h * d_v, d_model, bias=bias)
        #: The first three side by side, if they do not change any more (fixed.py).
        self.W_QKV: nn.Module | None = None

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        padding: Tensor | None = None,
        cache: AttentionCache | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Let x (batch, n, d_model) attend to memory (batch, m, d_model), or to itself.

        padding: boolean (batch, m), True where the memory (or x itself) is padding, which nobody
        sees but itself. cache: while decoding, in place of memory and padding, it projects x, takes
        its keys and values in, and gives those of all positions so far and the mask.
        Returns (batch, n, d_model) and the weights (batch, h, n, m), or None if nobody needs them.
        With need_weights, restricted attention too takes time and memory of n².
        """
        if cache is not None:
            # A few queries: torch's fused attention takes two to three times as long on a CPU.
            out, weights = scaled_dot_product_attention(*cache.queries_keys_values(x))
            return self._joined(out.to(x.dtype)), weights if need_weights else None
        if self.recompute and torch.is_grad_enabled():
            return checkpoint(
                self._attend,
                x,
                memory,
                padding,
                need_weights,
                use_reentrant=False,
                preserve_rng_state=self.dropout > 0,
            )
        return self._attend(x, memory, padding, need_weights)

    def _attend(
        self, x: Tensor, memory: Tensor | None, padding: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from all positions at once, by the fastest way that there is."""
        x = autocast_once(x)
        n, dropout = x.size(1), self.dropout if self.training else 0.0
        reach = self._reach(n) if memory is None else None
        q, k, v = (heads(projected, self.h) for projected in self._projected(x, memory))
        weights = None
        far = reach is None or n <= 2 * (reach.before + reach.after + 1)
        if need_weights or far and fused_is_slow(q, k):
            mask = visible(n, k.size(2), padding, reach, q.device)
            out, weights = scaled_dot_product_attention(q, k, v, mask, dropout)
        elif reach is not None and not far:
            out = restricted_attention(q, k, v, reach, padding, dropout)
        elif reach == causal_reach(n) and padding is None and not short_on_gpu(q):
            out = F.scaled_dot_product_attention(q, k, v, None, dropout, is_causal=True)
        else:
            mask = visible(n, k.size(2), padding, reach, q.device)
            out = F.scaled_dot_product_attention(q, k, v, mask, dropout)
        return self._joined(out), weights if need_weights else None

    def _projected(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, ...]:
        """Return queries, keys and values (batch, n or m, h·d)."""
        if memory is None and x.is_cuda:
            # One product: a GPU computes small ones faster than the processor starts them.
            widths = [self.h * d for d in (self.d_k, self.d_k, self.d_v)]
            return linear(x, **self.side_by_side()).split(widths, dim=-1)
        memory = x if memory is None else memory
        return self.W_Q(x), self.W_K(memory), self.W_V(memory)

    def side_by_side(self) -> dict[str, Tensor]:
        """Return W^Q, W^K and W^V as one "weight", and their biases, if any, as "bias"."""
        projections = (self.W_Q, self.W_K, self.W_V)
        parts = {
            "weight": [p.weight for p in projections],
            "bias": [p.bias for p in projections if p.bias is not None],
        }
        return {name: torch.cat(tuple(some)) for name, some in parts.items() if some}

    def _joined(self, x: Tensor) -> Tensor:
        """Concatenate the heads (batch, h, n, d_v), and project them by W^O."""
        return self.W_O(x.transpose(1, 2).flatten(2))

    def _reach(self, n: int) -> Reach | None:
        """Return how far each of n positions sees; None if it sees all."""
        if self.causal:
            return causal_reach(n, self.neighbourhood)
        return centred_reach(self.neighbourhood) if self.neighbourhood is not None else None
