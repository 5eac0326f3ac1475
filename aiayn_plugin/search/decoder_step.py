"""§6.1 A model as the search sees it: one step at a time, for a batch of sentences."""

from typing import Protocol

import torch
from torch import Tensor

from ..model.transformer import Decoder, Encoder
from .kv_cache import DecoderCache

#: Sentences that a CPU encodes at once: enough to keep it busy.
ENCODED_AT_ONCE = 64


class StepwiseModel(Protocol):
    """A model that decodes a batch."""

    def step(
        self, tokens: Tensor, parents: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Read the next token of each hypothesis.

        tokens (sentences, b, length): the hypotheses so far. parents (sentences, b): which one of
        the step before each continues; None at the first step.
        Returns the features of the next token, (sentences, b, …), and if asked for the
        encoder-decoder attention (sentences, b, m), the mean over the heads.
        """

    def log_probabilities(self, features: Tensor, temperature: float) -> Tensor:
        """Map features of some sentences to log P of the next token, (sentences, b, V)."""

    def select(self, sentences: Tensor) -> None:
        """Forget all sentences but these, given by their numbers in the batch as it is now."""


class OurModel:
    """A model of the plugin, with the keys and values of the batch it decodes."""

    def __init__(self, encoder: Encoder, decoder: Decoder, tokens: Tensor) -> None:
        self.decoder = decoder
        self.cache = DecoderCache(decoder.layers, *encode(encoder, tokens), decoder.cache_dtype)
        self.select = self.cache.select

    def step(
        self, tokens: Tensor, parents: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """As StepwiseModel.step."""
        last = tokens[:, :, -1]
        self.cache.advance(last, parents)
        features, weights = self.decoder.decode(last, cache=self.cache, need_weights=need_weights)
        return features, None if weights is None else weights.mean(dim=1)

    def log_probabilities(self, features: Tensor, temperature: float) -> Tensor:
        """As StepwiseModel.log_probabilities, in float32 or better."""
        scores = self.decoder.project(features)
        if temperature != 1:
            scores = scores / temperature
        return scores.to(torch.promote_types(scores.dtype, torch.float32)).log_softmax(dim=-1)


def encode(encoder: Encoder, tokens: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return Encoder.encode of tokens (batch, m), with less padding on a CPU.

    A CPU pays for padding. Batches are sorted by length, so 64 neighbours have similar lengths, and
    their columns of mere padding are left out.
    """
    if tokens.device.type != "cpu" or len(tokens) <= ENCODED_AT_ONCE:
        return encoder.encode(tokens)
    padding = tokens.eq(encoder.embedding.padding)
    memory = None
    for start in range(0, len(tokens), ENCODED_AT_ONCE):
        rows = slice(start, start + ENCODED_AT_ONCE)
        columns = (~padding[rows]).any(dim=0).nonzero()
        used = slice(int(columns.min()), int(columns.max()) + 1)
        x, _ = encoder.encode(tokens[rows, used])
        if memory is None:
            memory = x.new_zeros(*tokens.shape, x.size(-1))
        memory[rows, used] = x
    assert memory is not None
    return memory, padding if padding.any() else None
