"""§6.1 fairseq's own Transformer as a model of the search."""

from typing import Any

import torch
from fairseq.models.transformer import TransformerDecoderBase, TransformerEncoderBase
from torch import Tensor

#: Stacks whose state the search can reorder. ConvS2S and LSTMs fix the number of hypotheses of a
#: sentence at the first step, whereas this search grows it from 1 to b.
SUPPORTED_STACKS = (TransformerEncoderBase, TransformerDecoderBase)


class FairseqSearchModel:
    """fairseq's Transformer as a SearchModel (search/decoder_step.py)."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.vocabulary_size = len(model.decoder.dictionary)
        self.max_positions = model.max_decoder_positions()

    @property
    def weight(self) -> Tensor:
        """A weight, whose dtype and device are the model's."""
        return next(self.model.parameters())

    def start(self, source: Tensor) -> "FairseqDecoding":
        """Encode source tokens (batch, m) and begin to decode them."""
        lengths = source.ne(self.model.encoder.padding_idx).sum(dim=1)
        return FairseqDecoding(self.model, {"src_tokens": source, "src_lengths": lengths})


class FairseqDecoding:
    """The decoding of one batch through fairseq's incremental interface."""

    def __init__(self, model: Any, net_input: dict) -> None:
        self.model = model
        self.memory = model.encoder.forward_torchscript(net_input)
        self.state: dict = {}
        self.width = 1  # hypotheses of a sentence at the last step

    def step(
        self, tokens: Tensor, parents: Tensor | None, need_attention: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Read the last tokens; the features are logits, except with an adaptive softmax.

        See search/decoder_step.py.
        """
        sentences, b, _ = tokens.shape
        if parents is not None:
            first = torch.arange(sentences, device=tokens.device)[:, None] * self.width
            self.model.decoder.reorder_incremental_state_scripting(
                self.state, (first + parents).flatten()
            )
            if b != self.width:
                self._select_memory(first.expand(-1, b).flatten())
        self.width = b
        out, extra = self.model.decoder(
            tokens.flatten(0, 1), encoder_out=self.memory, incremental_state=self.state
        )[:2]
        attn = extra.get("attn") if need_attention and isinstance(extra, dict) else None
        attn = attn[0] if isinstance(attn, list) else attn
        if attn is not None:
            attn = attn[:, -1].unflatten(0, (sentences, b))
        return out[:, -1].unflatten(0, (sentences, b)), attn

    def log_probabilities(self, features: Tensor, temperature: float) -> Tensor:
        """Map features to log P of the next token, (batch, b, V)."""
        logits = features if temperature == 1 else features / temperature
        return self.model.get_normalized_probs((logits, None), log_probs=True, sample=None)

    def keep(self, rows: Tensor) -> None:
        """Drop all sentences except these rows of the current batch."""
        beams = rows[:, None] * self.width + torch.arange(self.width, device=rows.device)
        self.model.decoder.reorder_incremental_state_scripting(self.state, beams.flatten())
        self._select_memory(beams.flatten())

    def _select_memory(self, rows: Tensor) -> None:
        self.memory = self.model.encoder.reorder_encoder_out(self.memory, rows)
