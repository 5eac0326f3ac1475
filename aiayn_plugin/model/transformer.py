"""§3.1: the two stacks, from tokens to features."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from ..kernels.autocast import autocast_once
from ..kernels.dropout import dropout
from ..kernels.linear import linear
from ..paper import ModelSettings
from .attention import AttentionCache, Projection
from .embedding import ScaledEmbedding
from .layers import DecoderLayer, EncoderLayer
from .positions import build_positions, positions_of


class DecoderCache(Protocol):
    """The keys and values of earlier positions in all layers (search/kv_cache.py)."""

    @property
    def layers(self) -> Sequence[tuple[AttentionCache, AttentionCache]]:
        """For each layer, the caches of self-attention and of encoder-decoder attention."""

    @property
    def position(self) -> int:
        """The position of the step to compute; the first is 0."""


def _attention(settings: ModelSettings) -> dict:
    """Return the arguments of MultiHeadAttention that all layers share."""
    d_k, d_v = settings.head_widths()
    return dict(
        d_model=settings.d_model,
        h=settings.h,
        d_k=d_k,
        d_v=d_v,
        dropout=settings.attention_dropout,
        bias=settings.attention_bias,
        neighbourhood=settings.neighbourhood,
        recompute=settings.checkpoint_activations,
    )


def _layers(kind: type[EncoderLayer | DecoderLayer], settings: ModelSettings) -> nn.ModuleList:
    """Return N layers of one kind."""
    return nn.ModuleList(
        kind(settings.d_ff, settings.dropout, _attention(settings), settings.feed_forward_gain)
        for _ in range(settings.N)
    )


def embeddings(
    settings: ModelSettings, source: int, target: int, padding: int
) -> tuple[ScaledEmbedding, ScaledEmbedding]:
    """Return the embeddings of both sides, for so many entries: one and the same if tied so."""
    of_target = ScaledEmbedding(target, settings.d_model, padding)
    if settings.tie_embeddings == "all":
        return of_target, of_target
    return ScaledEmbedding(source, settings.d_model, padding), of_target


class EmbeddedStack(nn.Module):
    """What encoder and decoder share: embedding + positions, then dropout (§3.4, §3.5, §5.4)."""

    def __init__(
        self, settings: ModelSettings, embedding: ScaledEmbedding, max_positions: int, *of_fairseq
    ) -> None:
        """Build the stack; max_positions counts if `settings.positions` is limited.

        of_fairseq: the arguments of fairseq's class in a subclass that has one.
        """
        super().__init__(*of_fairseq)
        self.embedding = embedding
        self.positions = build_positions(settings.positions, settings.d_model, max_positions)
        self.dropout = settings.dropout

    @property
    def longest(self) -> int:
        """How many tokens a sentence may have: a million stands for any number."""
        return self.positions.max_positions or 1_000_000

    def embed(self, tokens: Tensor, position: int | None = None) -> Tensor:
        """Map (batch, n) tokens to (batch, n, d_model); with `position`, each is at that one."""
        if position is None:
            positions, length = positions_of(tokens, self.embedding.padding), tokens.size(1)
        else:
            positions = torch.full((1, 1), position, device=tokens.device)
            length = position + 1
        x = self.embedding(tokens)
        x = x + self.positions(positions, length).to(x.dtype)
        return dropout(x, self.dropout, self.training)


class Encoder(EmbeddedStack):
    """The stack of N encoder layers; there is no norm after the last one."""

    def __init__(
        self, settings: ModelSettings, embedding: ScaledEmbedding, max_positions: int, *of_fairseq
    ) -> None:
        super().__init__(settings, embedding, max_positions, *of_fairseq)
        self.layers = _layers(EncoderLayer, settings)

    def encode(self, tokens: Tensor) -> tuple[Tensor, Tensor | None]:
        """Map (batch, m) tokens to (batch, m, d_model) and the padding.

        The padding is boolean (batch, m), True at padding. It is None if there is none, which
        would keep a GPU waiting to find out.
        """
        is_padding = tokens.eq(self.embedding.padding)
        padding = None if tokens.device.type == "cpu" and not is_padding.any() else is_padding
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, padding)
        return x, padding


class Decoder(EmbeddedStack):
    """The stack of N decoder layers, and the projection to the vocabulary (§3.4)."""

    def __init__(
        self, settings: ModelSettings, embedding: ScaledEmbedding, max_positions: int, *of_fairseq
    ) -> None:
        super().__init__(settings, embedding, max_positions, *of_fairseq)
        vocabulary, d_model = self.embedding.weight.shape
        #: The pre-softmax matrix if it is one of its own, else None.
        self.W_vocabulary: Projection | None = None
        if settings.tie_embeddings == "none":
            self.W_vocabulary = Projection(d_model, vocabulary)
            nn.init.normal_(self.W_vocabulary.weight, std=d_model**-0.5)
        #: The product with the pre-softmax matrix, in a model that only searches (fixed.py).
        self.W_scores: nn.Module | None = None
        #: The precision of what a search keeps and attends to; None: that of the weights.
        self.cache_dtype: torch.dtype | None = None
        self.layers = _layers(DecoderLayer, settings)

    def decode(
        self,
        tokens: Tensor,
        memory: Tensor | None = None,
        memory_padding: Tensor | None = None,
        left_padded: bool = False,
        cache: DecoderCache | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Map (batch, n) tokens, shifted right, to features (batch, n, d_model).

        memory, memory_padding: what Encoder.encode returned. left_padded: tokens may begin with
        padding. cache: while decoding, in place of these three. After `cache.advance(tokens)`,
        tokens (sentences, b) are the last ones of b hypotheses, and only their features are
        computed.
        Returns also the last layer's encoder-decoder weights (batch, h, n, m), or None if nobody
        needs them.
        """
        padding = tokens.eq(self.embedding.padding) if left_padded else None
        memory = autocast_once(memory) if memory is not None else None
        x = self.embed(tokens, cache.position if cache is not None else None)
        weights = None
        for i, layer in enumerate(self.layers):
            caches = cache.layers[i] if cache is not None else (None, None)
            last = i == len(self.layers) - 1
            x, weights = layer(x, memory, padding, memory_padding, caches, need_weights and last)
        return x, weights

    def project(self, features: Tensor) -> Tensor:
        """§3.4: map (…, d_model) to scores (…, V), with the embedding's matrix and no bias."""
        return self.W_scores(features) if self.W_scores else linear(features, self.projection)

    @property
    def projection(self) -> Tensor:
        """The pre-softmax matrix (V, d_model): the target embedding's, or one of its own."""
        return (self.embedding if self.W_vocabulary is None else self.W_vocabulary).weight


class EncoderDecoder(nn.Module):
    """Both stacks, as one module to load, to move and to search with."""

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
