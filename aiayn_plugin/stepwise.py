"""§6.1 Models as the search sees them, one step at a time: the plugin's, and any other of
fairseq's."""

import torch
from torch import Tensor

from .decoding import Decoding, encode
from .transformer import Transformer


class OurModel:
    """One of the plugin's models, while it decodes a batch."""

    def __init__(self, model: Transformer, net_input: dict) -> None:
        self.decoding = Decoding(model.decoder, encode(model.encoder, net_input["src_tokens"]))
        self.keep = self.decoding.keep

    def step(self, tokens: Tensor, parents: Tensor | None, need_weights: bool):
        """(sentences, b, length) tokens to Decoding.step's features and weights."""
        return self.decoding.step(tokens[:, :, -1], parents, need_weights)

    def log_probabilities(self, features: Tensor, temperature: float) -> Tensor:
        """(sentences, b, V), of what `step` returned for these sentences."""
        scores = self.decoding.decoder.output_layer(features)
        if temperature != 1:
            scores = scores / temperature
        return scores.to(torch.promote_types(scores.dtype, torch.float32)).log_softmax(dim=-1)


class AnyModel:
    """Any other of fairseq's encoder-decoder models, through fairseq's own interface."""

    def __init__(self, model, net_input: dict) -> None:
        if hasattr(model, "set_beam_size"):
            model.set_beam_size(1)  # its short cut expects b hypotheses from the first step on
        self.model = model
        self.memory = model.encoder.forward_torchscript(net_input)
        self.state: dict = {}
        self.width = 1

    def step(self, tokens: Tensor, parents: Tensor | None, need_weights: bool):
        """As OurModel.step; but for an adaptive softmax, the features are scores already."""
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
        """As OurModel's."""
        scores = features if temperature == 1 else features / temperature
        flat = scores.flatten(0, 1)[:, None], None
        found = self.model.get_normalized_probs(flat, log_probs=True, sample=None)
        return found[:, -1].unflatten(0, scores.shape[:2])

    def keep(self, sentences: Tensor) -> None:
        """As Decoding.keep."""
        rows = sentences[:, None] * self.width + torch.arange(self.width, device=sentences.device)
        self.model.decoder.reorder_incremental_state_scripting(self.state, rows.flatten())
        self._select_memory(rows.flatten())

    def _select_memory(self, rows: Tensor) -> None:
        self.memory = self.model.encoder.reorder_encoder_out(self.memory, rows)
