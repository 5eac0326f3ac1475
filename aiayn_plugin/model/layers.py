"""§3.1 and §3.3: the layers of the two stacks, and their position-wise feed-forward network."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..kernels.dropout import dropout
from ..kernels.linear import Linear
from ..paper import ModelSettings
from .attention import AttentionCache, MultiHeadAttention

#: Builds an attention sub-layer from MultiHeadAttention's keyword arguments.
BuildAttention = Callable[..., MultiHeadAttention]


class FeedForward(nn.Module):
    """Equation (2): max(0, xW₁ + b₁)W₂ + b₂, the same at every position.

    W₁ and W₂ are initialised with Glorot's uniform distribution, times `gain`.
    """

    def __init__(self, d_model: int, d_ff: int, gain: float = 1.0) -> None:
        super().__init__()
        self.W_1 = Linear(d_model, d_ff)
        self.W_2 = Linear(d_ff, d_model)
        for layer in (self.W_1, self.W_2):
            nn.init.xavier_uniform_(layer.weight, gain)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, n, d_model) to (batch, n, d_model)."""
        # In place only without gradients: with them, autograd would copy a tensor of width d_ff.
        return self.W_2(F.relu(self.W_1(x), inplace=not torch.is_grad_enabled()))


class AddNorm(nn.Module):
    """§3.1, §5.4: LayerNorm(x + Dropout(Sublayer(x))), given x and Sublayer(x)."""

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=1e-5)
        self.dropout = dropout

    def forward(self, x: Tensor, sublayer: Tensor) -> Tensor:
        return self.norm(x + dropout(sublayer, self.dropout, self.training))


class EncoderLayer(nn.Module):
    """§3.1: self-attention, then feed-forward, each followed by AddNorm."""

    def __init__(self, s: ModelSettings, build_attention: BuildAttention) -> None:
        super().__init__()
        self.self_attention = build_attention()
        self.feed_forward = FeedForward(s.d_model, s.d_ff, s.feed_forward_gain)
        self.add_norms = nn.ModuleList(AddNorm(s.d_model, s.dropout) for _ in range(2))

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """Map x (batch, n, d_model) to the same shape; padding: boolean (batch, n)."""
        x = self.add_norms[0](x, self.self_attention(x, padding=padding)[0])
        return self.add_norms[1](x, self.feed_forward(x))


class DecoderLayer(nn.Module):
    """§3.1: masked self-attention, encoder-decoder attention, feed-forward; AddNorm after each.

    Encoder-decoder attention is never restricted.
    """

    def __init__(self, s: ModelSettings, build_attention: BuildAttention) -> None:
        super().__init__()
        self.self_attention = build_attention(causal=True)
        self.encoder_attention = build_attention(neighbourhood=None)
        self.feed_forward = FeedForward(s.d_model, s.d_ff, s.feed_forward_gain)
        self.add_norms = nn.ModuleList(AddNorm(s.d_model, s.dropout) for _ in range(3))

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        memory_padding: Tensor | None = None,
        caches: tuple[AttentionCache, AttentionCache] | tuple[None, None] = (None, None),
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Map x (batch, n, d_model) to the same shape.

        memory: (batch, m, d_model); memory_padding: boolean (batch, m). caches: of self-attention
        and encoder-decoder attention; while decoding they replace memory and its mask, and x is one
        position (batch, n, d_model) of n hypotheses per sentence.
        Also returns, with need_weights, the encoder-decoder weights (batch, h, n, m).
        """
        self_cache, cross_cache = caches
        x = self.add_norms[0](x, self.self_attention(x, cache=self_cache)[0])
        context, weights = self.encoder_attention(
            x, memory, memory_padding, cross_cache, need_weights=need_weights
        )
        x = self.add_norms[1](x, context)
        return self.add_norms[2](x, self.feed_forward(x)), weights
