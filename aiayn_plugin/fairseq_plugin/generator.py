"""§6.1 Beam search behind the interface of fairseq's SequenceGenerator."""

import torch
from fairseq import utils
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from ..errors import InputError
from ..parsing.grammar import TreeGrammar
from ..search.batching import in_parts
from ..search.beam import BeamSearch
from ..search.decoder_step import OurModel, StepwiseModel
from ..search.hypotheses import OpenHypotheses
from ..search.rules import Rules
from .fairseq_transformer import FairseqModel
from .model import Transformer


class Generator(BeamSearch, SequenceGenerator):
    """fairseq's generator with the rules of the paper or of fairseq.

    As SequenceGenerator's, each sentence's hypotheses come best first, as dictionaries of
    "tokens" (with the end symbol), "score" (log P over the penalty), "positional_scores",
    "attention" (source × target, empty unless asked for) and "alignment"; all on the CPU.
    An end symbol finishes a hypothesis if it is among the b best candidates of a sentence.
    """

    def __init__(
        self,
        models,
        tgt_dict,
        *,
        rules: Rules,
        grammar: TreeGrammar | None = None,
        alignment: str | None = None,
        **kwargs,
    ) -> None:
        """Build the generator; alignment "hard" or "soft" asks for attention and alignments too.

        grammar: of hypotheses that have to be trees.
        The other arguments are SequenceGenerator's.
        """
        super().__init__(models, tgt_dict, **kwargs)
        self.rules, self.grammar, self.alignment = rules, grammar, alignment
        self.want_attention = alignment is not None

    def _generate(self, sample, prefix_tokens=None, constraints=None, bos_token=None):
        """As fairseq's. Raises InputError for constraints, and if there is no hypothesis."""
        if constraints is not None:
            raise InputError("constraints need fairseq's search: give --constraints")
        batch = {name: sample["net_input"][name] for name in ("src_tokens", "src_lengths")}
        if prefix_tokens is not None:
            batch["prefix"] = prefix_tokens
        hypotheses = in_parts(lambda part: self._find(part, bos_token), batch, self._separable())
        if self.alignment:
            self._align(hypotheses, batch["src_tokens"])
        return hypotheses

    def _separable(self) -> bool:
        """Whether threads may share the models: fairseq's own do not promise it."""
        ours = all(isinstance(model, Transformer) for model in self.model.models)
        return ours and self.lm_model is None

    @torch.no_grad()
    def _find(self, batch: dict[str, Tensor], bos_token: int | None) -> list[list[dict]]:
        net_input = {name: batch[name] for name in ("src_tokens", "src_lengths")}
        models: list[StepwiseModel] = [
            OurModel(model.encoder, model.decoder, batch["src_tokens"])
            if isinstance(model, Transformer)
            else FairseqModel(model, net_input)
            for model in self.model.models
        ]
        first_token = self.eos if bos_token is None else bos_token
        return self.find(models, batch["src_tokens"], batch.get("prefix"), first_token)

    def score_dtype(self) -> torch.dtype:
        """Return float32, or the precision of the models if it is better."""
        return torch.promote_types(next(self.model.parameters()).dtype, torch.float32)

    def add_language_model(self, scores: Tensor, hypotheses: OpenHypotheses) -> Tensor:
        """Return the scores with --lm-weight times those of the language model, if there is one."""
        if self.lm_model is None:
            return scores
        out = self.lm_model(hypotheses.tokens.flatten(0, 1))
        log_p = self.lm_model.get_normalized_probs(out, log_probs=True, sample=None)[:, -1]
        return scores + self.lm_weight * log_p.unflatten(0, hypotheses.score.shape)

    def forbid_repeats(self, scores: Tensor, hypotheses: OpenHypotheses, step: int) -> None:
        """Forbid what --no-repeat-ngram-size forbids."""
        if self.repeat_ngram_blocker is not None:
            rows = hypotheses.tokens.flatten(0, 1), scores.flatten(0, 1)
            blocked = self.repeat_ngram_blocker(*rows, *hypotheses.score.shape, step)
            scores.copy_(blocked.view_as(scores))

    def _align(self, hypotheses: list[list[dict]], source: Tensor) -> None:
        extract = {"hard": utils.extract_hard_alignment, "soft": utils.extract_soft_alignment}
        for tokens, of_sentence in zip(source.cpu(), hypotheses, strict=True):
            for hypothesis in of_sentence:
                hypothesis["alignment"] = extract[str(self.alignment)](
                    hypothesis["attention"].t(), tokens, hypothesis["tokens"], self.pad, self.eos
                )
