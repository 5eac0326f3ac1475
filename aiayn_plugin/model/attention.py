"""§3.2 Attention: scaled dot-product attention and its multi-head form."""

import math
from collections.abc import Callable
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..errors import InputError
from ..kernels.attention import (
    Window,
    attend,
    build_mask,
    is_equation_faster,
    is_fused_step_faster,
)
from ..kernels.autocast import cast_for_autocast
from ..kernels.linear import Linear, linear
from ..kernels.softmax import softmax
from .restricted import causal_window, centred_window

#: The positions of queries and keys: (1 or batch, 1, 1 or n) and (1 or batch, 1, m), so that
#: key[..., None, :] - query[..., None] broadcasts to (batch, h, n, m).
Positions = tuple[Tensor, Tensor]


class AttentionCache(Protocol):
    """The keys and values of one attention sub-layer while decoding (search/kv_cache.py)."""

    def attention_inputs(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Project x (batch, n, d_model), and return its queries (batch, h, n, d_k).

        Also returns the keys (batch, h, m, d_k) and values (batch, h, m, d_v) that it may attend
        to, and an additive mask that broadcasts to (batch, h, n, m), or None.
        """

    def positions(self) -> Positions | None:
        """Return the positions of the queries and keys; None in encoder-decoder attention."""


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Equation (1), step by step: softmax(QKᵀ/√d_k)V.

    q is (…, n, d_k), k (…, m, d_k), v (…, m, d_v). The mask broadcasts to (…, n, m): boolean, True
    where a query may attend to a key, or additive (0 or −∞). No row may be fully masked.
    Returns the output (…, n, d_v) and the weights (…, n, m) before dropout.
    """
    # Scaling q costs less than scaling the scores, and keeps the matmul within float16's range.
    scores = (q / math.sqrt(q.size(-1))) @ k.transpose(-2, -1)
    weights = masked_softmax(scores, mask)
    return F.dropout(weights, dropout) @ v, weights


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return the softmax of scores (…, n, m), modified in place; the mask is as above."""
    if mask is not None:
        scores += additive_mask(mask, scores.dtype) if mask.dtype == torch.bool else mask
    return softmax(scores)


def additive_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a mask with 0 where a boolean mask is True, and −∞ elsewhere."""
    zeros = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return zeros.masked_fill_(~mask, -math.inf)


def split_heads(x: Tensor, h: int) -> Tensor:
    """Split (batch, n, h·d) into the heads (batch, h, n, d)."""
    return x.unflatten(-1, (h, -1)).transpose(1, 2)


class Projection(Linear):
    """x ↦ xW, or xW + b with a bias.

    W is initialised with Glorot's uniform distribution, as one of `stacked` concatenated matrices.
    """

    def __init__(
        self, in_features: int, out_features: int, stacked: int = 1, bias: bool = False
    ) -> None:
        self.stacked = stacked  # before nn.Linear's constructor, which calls reset_parameters
        super().__init__(in_features, out_features, bias)

    def reset_parameters(self) -> None:
        """Initialise the weight and the bias (called by nn.Linear's constructor)."""
        d_in, d_out = self.in_features, self.out_features
        gain = math.sqrt((d_in + d_out) / (d_in + self.stacked * d_out))
        nn.init.xavier_uniform_(self.weight, gain)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class MultiHeadAttention(nn.Module):
    """§3.2.2: h heads of scaled dot-product attention, concatenated and projected by W^O.

    `dropout` applies to attention weights (0 in the paper's translation models). `neighbourhood`
    is r of Table 1's restricted self-attention: each position attends to r positions around it or,
    if `causal`, to the last r. With `recompute`, training stores only the inputs for the backward
    pass and recomputes the rest there.
    """

    #: Equation (1). A subclass may define a method with the same arguments and results instead,
    #: which then computes all of its attention, in training and with the key-value cache. The cache
    #: holds keys in no particular order: an equation using positions needs takes_positions.
    equation: Callable[..., tuple[Tensor, Tensor]] = staticmethod(scaled_dot_product_attention)
    #: Whether `equation` has a sixth argument: Positions, or None in encoder-decoder attention.
    takes_positions = False

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
                f"neighbourhood {neighbourhood} must be at least 1: a position attends to itself"
            )
        self.h, self.d_k, self.d_v, self.dropout = h, d_k, d_v, dropout
        self.causal, self.neighbourhood, self.recompute = causal, neighbourhood, recompute
        # Each is initialised as a slice of a Glorot matrix with three times its columns. For base
        # the bound is √(6/(512 + 1536)) = 0.054; for each matrix alone it would be √(6/1024) =
        # 0.077: post-norm layers learn faster from smaller weights (measurements, "Initialisation
        # of attention").
        self.W_Q = Projection(d_model, h * d_k, stacked=3, bias=bias)
        self.W_K = Projection(d_model, h * d_k, stacked=3, bias=bias)
        self.W_V = Projection(d_model, h * d_v, stacked=3, bias=bias)
        self.W_O = Projection(h * d_v, d_model, bias=bias)
        #: W^Q, W^K and W^V as one layer; set only for inference (see inference_layers).
        self.W_QKV: nn.Module | None = None

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        padding: Tensor | None = None,
        cache: AttentionCache | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from x (batch, n, d_model) to memory (batch, m, d_model), or to x if it is None.

        padding: boolean (batch, m), True where the memory (or x itself) is padding, to which no
        other position attends. cache: replaces memory and padding while decoding; it projects x,
        stores its keys and values, and returns those of all positions so far and the mask.
        Returns (batch, n, d_model) and, with need_weights, the weights (batch, h, n, m); computing
        them takes n² time and memory even if attention is restricted.
        """
        if cache is not None:
            q, k, v, mask = cache.attention_inputs(x)
            if self._may_use_kernels(need_weights) and is_fused_step_faster(q):
                out = F.scaled_dot_product_attention(q, k, v, mask)
                return self._join_heads(out.to(x.dtype)), None
            positions = (cache.positions(),) if self.takes_positions else ()
            out, weights = self.equation(q, k, v, mask, 0.0, *positions)
            return self._join_heads(out.to(x.dtype)), weights if need_weights else None
        if self.recompute and torch.is_grad_enabled():
            return checkpoint(self._attend, x, memory, padding, need_weights, use_reentrant=False)
        return self._attend(x, memory, padding, need_weights)

    def _attend(
        self, x: Tensor, memory: Tensor | None, padding: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Compute attention for all positions of x at once, without a cache."""
        x = cast_for_autocast(x)
        n, dropout = x.size(1), self.dropout if self.training else 0.0
        window = self._window(n) if memory is None else None
        q, k, v = (split_heads(projected, self.h) for projected in self._project(x, memory))
        if self._may_use_kernels(need_weights) and not is_equation_faster(q, k, window):
            return self._join_heads(attend(q, k, v, padding, window, dropout)), None
        mask = build_mask(n, k.size(2), padding, window, q.device)
        positions = (self._positions(x, memory),) if self.takes_positions else ()
        out, weights = self.equation(q, k, v, mask, dropout, *positions)
        return self._join_heads(out), weights if need_weights else None

    def _may_use_kernels(self, need_weights: bool) -> bool:
        """Return whether a fused kernel, which returns no weights, may replace equation (1)."""
        return not need_weights and self.equation is scaled_dot_product_attention

    def _positions(self, x: Tensor, memory: Tensor | None) -> Positions | None:
        """Return the positions of queries and keys without a cache."""
        positions = torch.arange(x.size(1), device=x.device)[None, None]
        return (positions, positions) if memory is None else None

    def _window(self, n: int) -> Window | None:
        """Return the window that each of n positions attends to; None for all positions."""
        if self.causal:
            return causal_window(n, self.neighbourhood)
        return centred_window(self.neighbourhood) if self.neighbourhood is not None else None

    def _project(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, ...]:
        """Return queries, keys and values (batch, n or m, h·d)."""
        if memory is None and x.is_cuda:
            # A GPU finishes small matmuls faster than they can be launched, so launch only one.
            return linear(x, *self.stack_qkv()).split(self.qkv_widths(), dim=-1)
        memory = x if memory is None else memory
        return self.W_Q(x), self.W_K(memory), self.W_V(memory)

    def stack_qkv(self) -> tuple[Tensor, Tensor | None]:
        """Return W^Q, W^K and W^V as one concatenated weight, and their biases as one, or None."""
        projections = (self.W_Q, self.W_K, self.W_V)
        weight = torch.cat(tuple(p.weight for p in projections))
        biases = tuple(p.bias for p in projections if p.bias is not None)
        return weight, torch.cat(biases) if biases else None

    def qkv_widths(self) -> list[int]:
        """Return the widths of queries, keys and values in the output of stack_qkv's layer."""
        return [self.h * self.d_k, self.h * self.d_k, self.h * self.d_v]

    def inference_layers(self) -> dict[str, tuple[Tensor, Tensor | None]]:
        """Return the layers added for inference: decoding projects to q, k and v in one matmul."""
        return {"W_QKV": self.stack_qkv()} if self.causal else {}

    def _join_heads(self, x: Tensor) -> Tensor:
        """Concatenate the heads (batch, h, n, d_v), and project them by W^O."""
        return self.W_O(x.transpose(1, 2).flatten(2))
