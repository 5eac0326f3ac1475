"""§6.1 The search of one of the plugin's models, without fairseq."""

from argparse import Namespace
from typing import Any

import torch
from torch import Tensor

from ..model.transformer import EncoderDecoder
from ..parsing.grammar import TreeGrammar
from .batching import Batch, in_parts
from .beam import BeamSearch
from .decoder_step import OurModel
from .rules import rules_of


class Search(BeamSearch):
    """The search by the paper's rules; with a grammar, of nothing but trees."""

    want_attention = False
    #: fairseq-generate's defaults.
    min_len, temperature, unk_penalty, token_indices_to_suppress = 1, 1.0, 0.0, None

    def __init__(
        self,
        model: EncoderDecoder,
        settings: dict[str, Any],
        special: tuple[int, int, int],
        grammar: TreeGrammar | None = None,
    ) -> None:
        """settings: fairseq-generate's beam, lenpen, nbest, max_len_a and max_len_b.

        special: the numbers of padding, of the end symbol and of an unknown word. Raises InputError
        for settings that no search has.
        """
        self.model, self.grammar = model, grammar
        self.pad, self.eos, self.unk = special
        self.vocab_size = len(model.decoder.projection)
        others = {"unnormalized": False, "unkpen": 0.0, "lm_weight": 0.0}
        self.rules = rules_of(Namespace(**settings, **others), True, self.vocab_size)
        self.beam_size = settings["beam"]
        self.max_len = model.decoder.longest

    def score_dtype(self) -> torch.dtype:
        """Return float32, or the precision of the model if it is better."""
        return torch.promote_types(self.model.decoder.projection.dtype, torch.float32)

    def hypotheses(self, source: Tensor) -> list[list[dict]]:
        """Return the hypotheses of each sentence of (sentences, m) tokens, best first.

        Each is a dictionary as that of fairseq. Raises InputError if there is none.
        """
        return in_parts(self._find, {"src_tokens": source}, separable=True)

    @torch.no_grad()
    def _find(self, batch: Batch) -> list[list[dict]]:
        source = batch["src_tokens"]
        of_batch = OurModel(self.model.encoder, self.model.decoder, source)
        return self.find([of_batch], source, None, self.eos)
