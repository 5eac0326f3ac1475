"""§6.1 The search behind the interface of fairseq's SequenceGenerator."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from fairseq import utils
from fairseq.ngram_repeat_block import NGramRepeatBlock
from torch import Tensor

from ..errors import InputError
from ..paper import SearchSettings
from ..parsing.grammar import TreeGrammar
from ..search import BeamSearch, Hypothesis
from ..search.decoder_step import AiaynSearchModel, SearchModel
from .fairseq_transformer import FairseqSearchModel
from .model import AiaynTransformer

ALIGNMENTS = {"hard": utils.extract_hard_alignment, "soft": utils.extract_soft_alignment}


class Generator:
    """Maps fairseq's batches to fairseq's dictionaries of hypotheses.

    `generate` returns for each sentence a list, best first, of dictionaries with "tokens" (the end
    symbol included), "score" (log P over the length penalty), "positional_scores", "attention"
    (source × target) and "alignment"; all on the CPU. The last two are empty unless requested.
    """

    def __init__(
        self,
        models: Sequence[Any],
        target_dictionary: Any,
        settings: SearchSettings,
        *,
        constraint: TreeGrammar | None = None,
        alignment: str | None = None,
        no_repeat_ngram_size: int = 0,
        lm_model: Any = None,
        lm_weight: float = 1.0,
    ) -> None:
        """Prepare the search; alignment (of ALIGNMENTS) requests attention and alignments."""
        for model in filter(None, [*models, lm_model]):
            model.eval()
        self.pad, self.eos = target_dictionary.pad(), target_dictionary.eos()
        self.symbols_to_strip_from_output = {self.eos}
        self.alignment = ALIGNMENTS[alignment] if alignment else None
        self.lm_model, self.lm_weight = lm_model, lm_weight
        self.block_repeats = (
            NGramRepeatBlock(no_repeat_ngram_size) if no_repeat_ngram_size > 0 else None
        )
        self.search = BeamSearch(
            settings,
            [search_model(model) for model in models],
            constraint=constraint,
            adjust_scores=self._adjust_scores if lm_model or self.block_repeats else None,
            need_attention=alignment is not None,
            # fairseq does not guarantee that threads may share its models
            use_threads=lm_model is None and all(isinstance(m, AiaynTransformer) for m in models),
        )

    def generate(
        self,
        models: Sequence[Any],
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
    ) -> list[list[dict[str, Tensor]]]:
        """Return the hypotheses of a batch. Raises InputError for a sentence without any."""
        if constraints is not None:
            raise InputError("target-side constraints need fairseq's search: give --constraints")
        source = sample["net_input"]["src_tokens"]
        results = self.search.search_batch(source, prefix_tokens)
        return [
            [self._as_dictionary(hypothesis, tokens) for hypothesis in hypotheses]
            for hypotheses, tokens in zip(results, source.cpu(), strict=True)
        ]

    def _as_dictionary(self, hypothesis: Hypothesis, source: Tensor) -> dict[str, Any]:
        tokens, attention = hypothesis.tokens, hypothesis.attention
        alignment = None
        if attention is not None and self.alignment is not None:
            alignment = self.alignment(attention.t(), source, tokens, self.pad, self.eos)
        empty = torch.empty(0)
        return {
            "tokens": tokens,
            "score": hypothesis.score,
            "attention": empty if attention is None else attention,
            "alignment": empty if alignment is None else alignment,
            "positional_scores": hypothesis.positional_scores,
        }

    def _adjust_scores(self, scores: Tensor, tokens: Tensor) -> Tensor:
        """Add the language model's log P (--lm-weight) and forbid repeated n-grams."""
        rows = tokens.flatten(0, 1)
        if self.lm_model is not None:
            net_output = self.lm_model(rows)
            log_p = self.lm_model.get_normalized_probs(net_output, log_probs=True, sample=None)
            scores = scores + self.lm_weight * log_p[:, -1].unflatten(0, scores.shape[:2])
        if self.block_repeats is not None and self.block_repeats.no_repeat_ngram_size == 1:
            scores = scores.scatter(2, tokens[:, :, 1:], -math.inf)  # fairseq's ignores n = 1
        elif self.block_repeats is not None:
            step = tokens.size(2) - 1
            blocked = self.block_repeats(rows, scores.flatten(0, 1), *scores.shape[:2], step)
            scores = blocked.view_as(scores)
        return scores


def search_model(model: Any) -> SearchModel:
    """Return one of the plugin's models, or fairseq's Transformer, as a model of the search."""
    if isinstance(model, AiaynTransformer):
        return AiaynSearchModel(model.encoder, model.decoder)
    return FairseqSearchModel(model)
