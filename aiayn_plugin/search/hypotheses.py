"""§6.1 The hypotheses of a search: open ones, the history of choices, and finished ones.

The beam index of a hypothesis is its rank among the b open ones of its sentence: 0 for the best.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..text.dictionary import Vocabulary
from .rules import PaperRules


@dataclass(frozen=True)
class Hypothesis:
    """A finished hypothesis, on the CPU."""

    tokens: Tensor  #: (n,), the end symbol last
    score: Tensor  #: log P over the length penalty; a scalar
    positional_scores: Tensor  #: (n,) log P of each token
    attention: Tensor | None = None  #: (m, n) encoder-decoder attention, if it was requested


@dataclass
class OpenHypotheses:
    """The b open hypotheses of each unfinished sentence, best first."""

    sentence: Tensor  #: (batch,) index in the original batch
    limit: Tensor  #: (batch,) maximum tokens, without the end symbol
    tokens: Tensor  #: (batch, b, length), with the first token, which is not part of the output
    score: Tensor  #: (batch, b) log P; −∞ where there is no hypothesis
    prefix: Tensor | None = None  #: (batch, prefix length) forced tokens, then padding
    parents: Tensor | None = None  #: (batch, b) beam index at the previous step
    constraint: Tensor | None = None  #: (batch,) what TreeGrammar.start returned

    def select(self, rows: slice | Tensor) -> "OpenHypotheses":
        """Return the hypotheses of some of the sentences."""
        return replace(self, **{name: x[rows] for name, x in vars(self).items() if x is not None})


@dataclass
class Choices:
    """The tokens that one step chose for the unfinished sentences."""

    sentence: Tensor  #: (batch,) index in the original batch
    token: Tensor  #: (batch, b)
    parent: Tensor  #: (batch, b) beam index at the previous step
    score: Tensor  #: (batch, b) log P so far
    #: (batch, b, m) encoder-decoder attention of the hypotheses before this step, if requested
    attention: Tensor | None


class FinishedHypotheses:
    """The best finished hypotheses of each sentence in a batch, best first."""

    def __init__(self, sentences: int, rules: PaperRules, like: Tensor) -> None:
        """like: a tensor with the dtype and device of the scores."""
        self.rules = rules
        shape = (sentences, rules.kept)
        self.score = like.new_full(shape, -torch.inf)  # log P over the penalty
        self.total = like.new_zeros(shape)  # log P
        self.parent = torch.zeros(shape, dtype=torch.long, device=like.device)
        self.step = torch.zeros_like(self.parent)  # of the end symbol
        self.count = self.parent.new_zeros(sentences)  # finished, whether kept or not

    def add(self, sentence: Tensor, total: Tensor, parent: Tensor, end: Tensor, step: int) -> None:
        """Add the candidates (batch, b) that end at this step; keep the best.

        sentence: (batch,) indices in the original batch; total: log P; parent: beam index of the
        hypothesis that a candidate continues; end: whether the candidate is the end symbol.
        """
        ended = self.rules.accept(end & total.gt(-torch.inf), self.count[sentence])
        score = (total / self.rules.penalty(step + 1)).masked_fill(~ended, -torch.inf)
        self.count[sentence] += ended.sum(dim=1)
        best = torch.cat((self.score[sentence], score), dim=1).topk(self.rules.kept, dim=1)
        self.score[sentence] = best.values
        new = {"total": total, "parent": parent, "step": torch.full_like(parent, step)}
        for name, value in new.items():
            kept = getattr(self, name)
            kept[sentence] = torch.cat((kept[sentence], value), dim=1).gather(1, best.indices)

    def trace_back(self, history: Sequence[Choices]) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, each followed backwards from its end.

        The list of a sentence without hypotheses is empty.

        For example, a beam of two and three steps of (token, parent):

            step 0   beam 0: (a, 0)   beam 1: (b, 0)
            step 1   beam 0: (c, 1)   beam 1: (d, 0)
            step 2   the end symbol after beam 0

        The end follows beam 0 of step 1, which is c; its parent is beam 1 of step 0, which is b:
        the hypothesis is b, c, end.
        """
        beam, end = self.parent, self.step
        length = int(end.max()) + 1
        tokens = beam.new_full((*end.shape, length), Vocabulary.eos)
        totals = self.total[:, :, None].repeat(1, 1, length)  # log P of the first t + 1 tokens
        attention: list[Tensor] = []
        for t in reversed(range(length)):
            if (weights := history[t].attention) is not None:
                attention.append(_gather_beams(history[t].sentence, weights, beam))
            if t == 0:
                break
            step = history[t - 1]
            token, parent, score = (
                _gather_beams(step.sentence, values, beam)
                for values in (step.token, step.parent, step.score)
            )
            has_token = end >= t  # at t − 1, before its end symbol
            tokens[:, :, t - 1] = torch.where(has_token, token, Vocabulary.eos)
            totals[:, :, t - 1] = torch.where(has_token, score, totals[:, :, t - 1])
            beam = torch.where(has_token, parent, beam)
        stacked = torch.stack(attention[::-1], dim=-1).cpu() if attention else None
        return self._cut(tokens.cpu(), totals.cpu(), stacked)

    def _cut(
        self, tokens: Tensor, totals: Tensor, weights: Tensor | None
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses in CPU tensors (batch, kept, length), cut after the end symbol."""
        # A copy, because tensors created in inference mode cannot be used in autograd.
        score, lengths = self.score.cpu().clone(), (self.step + 1).tolist()
        positional = totals.diff(dim=2, prepend=torch.zeros_like(totals[:, :, :1]))

        def hypothesis(i: int, j: int) -> Hypothesis:
            n = lengths[i][j]
            attention = None if weights is None else weights[i, j, :, :n]
            return Hypothesis(tokens[i, j, :n], score[i, j], positional[i, j, :n], attention)

        return [
            [
                hypothesis(i, j)
                for j in score[i].sort(descending=True, stable=True).indices.tolist()
                if score[i, j] > -torch.inf
            ]
            for i in range(len(score))
        ]


def _gather_beams(sentence: Tensor, values: Tensor, beam: Tensor) -> Tensor:
    """Return the values of hypotheses by beam index; zeros for sentences that were finished.

    sentence: (batch,) indices in the original batch of the rows of values (batch, b, …). beam:
    (original batch, kept). For example, with sentence 0 of two finished: sentence [1], values
    [[5, 6]], beam [[0], [1]] give [[0], [6]].
    """
    all_sentences = values.new_zeros(len(beam), *values.shape[1:])
    all_sentences[sentence] = values
    index = beam.view(*beam.shape, *[1] * (values.dim() - 2))
    return all_sentences.gather(1, index.expand(*beam.shape, *values.shape[2:]))
