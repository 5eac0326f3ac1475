"""§3.1: the encoder and decoder stacks, from tokens to features."""

from collections.abc import Sequence
from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..kernels.autocast import cast_for_autocast
from ..kernels.compilation import compile_on_gpu
from ..kernels.dropout import dropout
from ..kernels.linear import linear
from ..paper import TIED_EMBEDDINGS, ModelSettings
from ..text.dictionary import Vocabulary
from .attention import AttentionCache, MultiHeadAttention, Projection
from .embedding import ScaledEmbedding
from .layers import BuildAttention, DecoderLayer, EncoderLayer
from .positions import build_positions, token_positions


class DecoderCache(Protocol):
    """The keys and values of earlier positions in all layers (search/kv_cache.py)."""

    @property
    def layers(self) -> Sequence[tuple[AttentionCache, AttentionCache]]:
        """For each layer, the caches of self-attention and of encoder-decoder attention."""

    @property
    def position(self) -> int:
        """The position being decoded, from 0."""


def _build_layers(
    kind: type[EncoderLayer | DecoderLayer],
    s: ModelSettings,
    build_attention: BuildAttention,
) -> nn.ModuleList:
    """Return N layers of one kind."""
    d_k, d_v = s.head_widths()
    build_attention = partial(
        build_attention,
        d_model=s.d_model,
        h=s.h,
        d_k=d_k,
        d_v=d_v,
        dropout=s.attention_dropout,
        bias=s.attention_bias,
        neighbourhood=s.neighbourhood,
        recompute=s.checkpoint_activations,
    )
    return nn.ModuleList(kind(s, build_attention) for _ in range(s.N))


def build_embeddings(
    settings: ModelSettings, source_size: int, target_size: int
) -> tuple[ScaledEmbedding, ScaledEmbedding]:
    """Return the embeddings of source and target, for dictionaries of these sizes.

    With tie_embeddings "all" both are the same module; raises InputError if the sizes differ.
    """
    if settings.tie_embeddings not in TIED_EMBEDDINGS:
        raise InputError(
            f"tie_embeddings {settings.tie_embeddings!r} is not one of {', '.join(TIED_EMBEDDINGS)}"
        )
    target_embedding = ScaledEmbedding(target_size, settings.d_model, Vocabulary.pad)
    if settings.tie_embeddings != "all":
        source_embedding = ScaledEmbedding(source_size, settings.d_model, Vocabulary.pad)
        return source_embedding, target_embedding
    if source_size != target_size:
        raise InputError(
            f"one matrix embeds both sides (§3.4), but the dictionaries have {source_size:,} and "
            f'{target_size:,} entries: use a joined dictionary, or tie_embeddings="target"'
        )
    return target_embedding, target_embedding


class EmbeddedStack(nn.Module):
    """The base of encoder and decoder: embedding + positions, then dropout (§3.4, §3.5, §5.4)."""

    def __init__(
        self, settings: ModelSettings, embedding: ScaledEmbedding, max_positions: int, *fairseq_args
    ) -> None:
        """Build the stack; the paper's sinusoids ignore max_positions.

        fairseq_args: constructor arguments of the fairseq class that a subclass also inherits from.
        """
        super().__init__(*fairseq_args)
        self.embedding = embedding
        self.positions = build_positions(settings.positions, settings.d_model, max_positions)
        self.dropout = settings.dropout

    def max_positions(self) -> int:
        """Return the maximum number of tokens in a sentence; a million means no limit."""
        return self.positions.max_positions or 1_000_000

    def embed(self, tokens: Tensor, position: int | None = None) -> Tensor:
        """Map tokens (batch, n) to (batch, n, d_model); all are at `position` if it is given."""
        if self.training and position is None:
            return _embed_in_training(tokens, self)
        return self._embed(tokens, position)

    def _embed(self, tokens: Tensor, position: int | None = None) -> Tensor:
        if position is None:
            positions, length = token_positions(tokens, Vocabulary.pad), tokens.size(1)
        else:
            positions = torch.full((1, 1), position, device=tokens.device)
            length = position + 1
        x = self.embedding(tokens)
        x = x + self.positions(positions, length).to(x.dtype)
        return dropout(x, self.dropout, self.training)


@compile_on_gpu(dynamic=True)
def _embed_in_training(tokens: Tensor, stack: EmbeddedStack) -> Tensor:
    return stack._embed(tokens)


class Encoder(EmbeddedStack):
    """The stack of N encoder layers, without a norm after the last one."""

    def __init__(
        self,
        settings: ModelSettings,
        embedding: ScaledEmbedding,
        max_positions: int,
        *fairseq_args,
        build_attention: BuildAttention = MultiHeadAttention,
    ) -> None:
        super().__init__(settings, embedding, max_positions, *fairseq_args)
        self.layers = _build_layers(EncoderLayer, settings, build_attention)

    def encode(self, tokens: Tensor) -> tuple[Tensor, Tensor | None]:
        """Map tokens (batch, m) to features (batch, m, d_model) and the padding mask.

        The mask is boolean (batch, m), True at padding. On a CPU it is None if there is no padding;
        on a GPU, checking this would require a synchronisation.
        """
        is_padding = tokens.eq(Vocabulary.pad)
        padding = None if tokens.device.type == "cpu" and not is_padding.any() else is_padding
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, padding)
        return x, padding


class Decoder(EmbeddedStack):
    """The stack of N decoder layers, and the projection to the vocabulary (§3.4)."""

    def __init__(
        self,
        settings: ModelSettings,
        embedding: ScaledEmbedding,
        max_positions: int,
        *fairseq_args,
        build_attention: BuildAttention = MultiHeadAttention,
    ) -> None:
        super().__init__(settings, embedding, max_positions, *fairseq_args)
        vocabulary, d_model = self.embedding.weight.shape
        #: The projection to the vocabulary; None if its matrix is the target embedding.
        self.W_vocabulary: Projection | None = None
        if settings.tie_embeddings == "none":
            self.W_vocabulary = Projection(d_model, vocabulary)
            nn.init.normal_(self.W_vocabulary.weight, std=d_model**-0.5)
        #: The projection to the vocabulary; set only for inference (see inference_layers).
        self.inference_projection: nn.Module | None = None
        self.layers = _build_layers(DecoderLayer, settings, build_attention)

    def decode(
        self,
        tokens: Tensor,
        memory: Tensor | None = None,
        memory_padding: Tensor | None = None,
        cache: DecoderCache | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Map tokens (batch, n), shifted right, to features (batch, n, d_model).

        Padding may only follow a sentence, where no position attends to it.
        memory, memory_padding: the output of Encoder.encode. cache: while decoding, replaces memory
        and memory_padding. Call cache.advance(tokens) first; tokens (batch, b) then hold the last
        token of each of b hypotheses, and the result is (batch, b, d_model). Raises InputError
        without both.
        Also returns, with need_weights, the last layer's encoder-decoder weights (batch, h, n, m).
        """
        if memory is None and cache is None:
            raise InputError("a decoder needs the output of Encoder.encode, or a cache")
        memory = cast_for_autocast(memory) if memory is not None else None
        x = self.embed(tokens, cache.position if cache is not None else None)
        weights = None
        for i, layer in enumerate(self.layers):
            caches = cache.layers[i] if cache is not None else (None, None)
            is_last = i == len(self.layers) - 1
            x, weights = layer(x, memory, memory_padding, caches, need_weights and is_last)
        return x, weights

    def project(self, features: Tensor) -> Tensor:
        """§3.4: map (…, d_model) to logits (…, V), without a bias."""
        if self.inference_projection is not None:
            return self.inference_projection(features)
        return linear(features, self.projection)

    @property
    def projection(self) -> Tensor:
        """The pre-softmax matrix (V, d_model): the target embedding's, or that of W_vocabulary."""
        return (self.embedding if self.W_vocabulary is None else self.W_vocabulary).weight

    def inference_layers(self) -> dict[str, tuple[Tensor, Tensor | None]]:
        """Return the layer added for inference: the projection, even if its matrix is shared."""
        return {"inference_projection": (self.projection, None)}


class Transformer(nn.Module):
    """The encoder-decoder as a plain module, independent of fairseq.

    Token IDs are those of text.dictionary.Vocabulary: 1 is padding, 2 the end symbol.

    >>> model = Transformer(ModelSettings(N=2), 1000, 1000)
    >>> source, target = torch.tensor([[5, 6, 7, 2]]), torch.tensor([[2, 8, 9]])
    >>> model(source, target).shape
    torch.Size([1, 3, 1000])

    Translate with search.generate, which is not a method because search/ imports this package.
    """

    #: The class of all attention sub-layers; a subclass may replace it.
    attention_class: type[MultiHeadAttention] = MultiHeadAttention

    def __init__(
        self,
        settings: ModelSettings,
        source_size: int,
        target_size: int,
        max_positions: tuple[int, int] = (1024, 1024),
    ) -> None:
        """Build a model with random weights, for vocabularies of these sizes.

        max_positions: of source and target; the paper's sinusoids ignore them. Raises InputError
        for settings that contradict each other or the sizes.
        """
        super().__init__()
        embeddings = build_embeddings(settings, source_size, target_size)
        self.encoder = Encoder(
            settings, embeddings[0], max_positions[0], build_attention=self.attention_class
        )
        self.decoder = Decoder(
            settings, embeddings[1], max_positions[1], build_attention=self.attention_class
        )

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Map source (batch, m) and target (batch, n) tokens to logits (batch, n, V).

        source: each sentence with its end symbol, padded on either side. target: shifted right, so
        that it starts with the end symbol, and padded on the right. Row i of the logits scores the
        token that follows target[:, : i + 1].
        """
        features, _ = self.decoder.decode(target, *self.encoder.encode(source))
        return self.decoder.project(features)
