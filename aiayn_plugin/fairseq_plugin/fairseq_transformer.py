"""§6.1 fairseq's own Transformer as the search sees it, one step at a time."""

from collections.abc import Iterable
from typing import Any

import torch
from fairseq.models.transformer import TransformerDecoderBase, TransformerEncoderBase
from torch import Tensor

#: Stacks that keep nothing of a sentence but what they reorder. Those of ConvS2S and of LSTMs keep
#: the memory of as many hypotheses as they saw first, and here this number changes.
STACKS = (TransformerEncoderBase, TransformerDecoderBase)


def is_fairseqs_transformer(model: Any) -> bool:
    """Whether FairseqModel can be this model."""
    stacks = getattr(model, "encoder", None), getattr(model, "decoder", None)
    return all(map(isinstance, stacks, STACKS))


def search_with_beam(models: Iterable[Any], beam: int) -> None:
    """Tell models the beam of fairseq's search: fairseq-generate has told them the paper's.

    ConvS2S computes its attention for so many hypotheses of a sentence at once.
    """
    for model in models:
        for module in model.modules():
            if hasattr(module, "set_beam_size"):
                module.set_beam_size(beam)


class FairseqModel:
    """A model with the stacks of fairseq's Transformer, through fairseq's interface."""

    def __init__(self, model, net_input: dict) -> None:
        self.model = model
        self.memory = model.encoder.forward_torchscript(net_input)
        self.state: dict = {}
        self.width = 1  # hypotheses of a sentence at the last step

    def step(
        self, tokens: Tensor, parents: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """As StepwiseModel.step; the features are the scores, except with an adaptive softmax."""
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
        attn = extra.get("attn") if isinstance(extra, dict) else None
        attn = attn[0] if isinstance(attn, list) else attn
        if attn is not None:
            attn = attn[:, -1].unflatten(0, (sentences, b))
        return out[:, -1].unflatten(0, (sentences, b)), attn

    def log_probabilities(self, features: Tensor, temperature: float) -> Tensor:
        """As StepwiseModel.log_probabilities."""
        scores = features if temperature == 1 else features / temperature
        net_output = scores.flatten(0, 1)[:, None], None
        log_p = self.model.get_normalized_probs(net_output, log_probs=True, sample=None)
        return log_p[:, -1].unflatten(0, scores.shape[:2])

    def select(self, sentences: Tensor) -> None:
        """As StepwiseModel.select."""
        rows = sentences[:, None] * self.width + torch.arange(self.width, device=sentences.device)
        self.model.decoder.reorder_incremental_state_scripting(self.state, rows.flatten())
        self._select_memory(rows.flatten())

    def _select_memory(self, rows: Tensor) -> None:
        self.memory = self.model.encoder.reorder_encoder_out(self.memory, rows)
