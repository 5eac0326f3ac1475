"""§6.1 A model as the search calls it: one step at a time, for a batch of sentences."""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from ..model.transformer import Decoder, Encoder
from ..text.dictionary import Vocabulary
from .kv_cache import DecoderCache

#: Sentences per encoder call on a CPU: enough to keep it busy.
ENCODER_BATCH = 64


class Decoding(Protocol):
    """The decoding of one batch, with the state that a model keeps between steps."""

    def step(
        self, tokens: Tensor, parents: Tensor | None, need_attention: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Read the last token of each hypothesis.

        tokens (batch, b, length): the hypotheses so far. parents (batch, b): the beam index at the
        previous step that each one continues; None at the first step.
        Returns the features of the next token, (batch, b, …), and if requested the encoder-decoder
        attention (batch, b, m), averaged over the heads.
        """

    def log_probabilities(self, features: Tensor, temperature: float) -> Tensor:
        """Map features of some sentences to log P of the next token, (batch, b, V)."""

    def keep(self, rows: Tensor) -> None:
        """Drop all sentences except these rows of the current batch."""


class SearchModel(Protocol):
    """A model that the search can decode with."""

    @property
    def vocabulary_size(self) -> int:
        """Entries of the target dictionary, V."""

    @property
    def max_positions(self) -> int:
        """Maximum target length, including the end symbol."""

    @property
    def weight(self) -> Tensor:
        """A weight, for the model's current dtype and device (training may change them)."""

    def start(self, source: Tensor) -> Decoding:
        """Encode source tokens (batch, m) and begin to decode them."""


class AiaynSearchModel:
    """One of the plugin's models."""

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        self.encoder, self.decoder = encoder, decoder
        self.vocabulary_size, self.max_positions = len(decoder.projection), decoder.max_positions()

    @property
    def weight(self) -> Tensor:
        """A weight, whose dtype and device are the model's."""
        return self.decoder.projection

    def start(self, source: Tensor) -> Decoding:
        """Encode source tokens (batch, m) and begin to decode them."""
        memory = encode(self.encoder, source)
        return CachedDecoding(self.decoder, DecoderCache(self.decoder.layers, *memory))


class CachedDecoding:
    """The decoding of one batch by one of the plugin's models, with its key-value cache."""

    def __init__(self, decoder: Decoder, cache: DecoderCache) -> None:
        self.decoder, self.cache = decoder, cache

    def step(
        self, tokens: Tensor, parents: Tensor | None, need_attention: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Read the last token of each hypothesis; see Decoding.step."""
        last = tokens[:, :, -1]
        self.cache.advance(last, parents)
        features, weights = self.decoder.decode(last, cache=self.cache, need_weights=need_attention)
        return features, None if weights is None else weights.mean(dim=1)

    def log_probabilities(self, features: Tensor, temperature: float) -> Tensor:
        """Return log P (batch, b, V) in float32, or in the dtype of the model if it is wider."""
        logits = self.decoder.project(features)
        if temperature != 1:
            logits = logits / temperature
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)

    def keep(self, rows: Tensor) -> None:
        """Drop all sentences except these rows of the current batch."""
        self.cache.compact(rows)


def encode(encoder: Encoder, tokens: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return Encoder.encode of tokens (batch, m), computed with less padding on a CPU.

    Neighbours in a batch sorted by length have similar lengths, so a CPU encodes ENCODER_BATCH
    sentences at a time and drops the columns that are padding in all of them.
    """
    if tokens.device.type != "cpu" or len(tokens) <= ENCODER_BATCH:
        return encoder.encode(tokens)
    memory = []
    for chunk in tokens.split(ENCODER_BATCH):
        columns = chunk.ne(Vocabulary.pad).any(dim=0).nonzero()
        first, end = int(columns.min()), int(columns.max()) + 1
        x, _ = encoder.encode(chunk[:, first:end])
        memory.append(F.pad(x, (0, 0, first, tokens.size(1) - end)))
    padding = tokens.eq(Vocabulary.pad)
    return torch.cat(memory), padding if padding.any() else None
