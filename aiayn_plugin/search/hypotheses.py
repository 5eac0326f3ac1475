"""§6.1 The hypotheses of a search: the open ones, how they came about, the finished ones."""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from .rules import Rules


@dataclass
class OpenHypotheses:
    """The open hypotheses of the sentences that are not done yet, b of each, best first.

    The place of a hypothesis is its number among the b: 0 for the best.
    """

    sentence: Tensor  #: (sentences,) its number in the batch
    limit: Tensor  #: (sentences,) how many tokens it may have, without the end symbol
    tokens: Tensor  #: (sentences, b, length), what the models read
    score: Tensor  #: (sentences, b) log P; −∞ if there is no hypothesis at this place
    prefix: Tensor | None  #: (sentences, prefix length) forced tokens, or padding
    parents: Tensor | None = None  #: (sentences, b) the place at the step before
    words: Tensor | None = None  #: (sentences,) that each tree is over, if they have to be trees

    def part(self, rows: slice) -> "OpenHypotheses":
        """Return some of the sentences."""
        return replace(self, **{name: x[rows] for name, x in vars(self).items() if x is not None})

    def select(self, rows: Tensor) -> None:
        """Forget all sentences but these."""
        for name, value in vars(self).items():
            if value is not None:
                setattr(self, name, value.index_select(0, rows))


@dataclass
class Choices:
    """What the search chose at one step, for the sentences that were not done yet."""

    sentence: Tensor  #: (sentences,) its number in the batch
    token: Tensor  #: (sentences, b)
    parent: Tensor  #: (sentences, b) the place at the step before
    score: Tensor  #: (sentences, b) log P so far


@dataclass
class History:
    """The choices of all steps, and the encoder-decoder attention if it is wanted."""

    choices: list[Choices] = field(default_factory=list)
    #: For each step the numbers of the sentences (sentences,) and the weights (sentences, b, m).
    attention: list[tuple[Tensor, Tensor]] = field(default_factory=list)


class Finished:
    """The best finished hypotheses of each sentence of a batch, best first."""

    def __init__(self, sentences: int, rules: Rules, like: Tensor) -> None:
        """like: a tensor with the precision and the device of the scores."""
        self.rules = rules
        shape = (sentences, rules.kept)
        self.score = like.new_full(shape, -torch.inf)  # log P over the penalty
        self.total = like.new_zeros(shape)  # log P
        self.parent = torch.zeros(shape, dtype=torch.long, device=like.device)
        self.step = torch.zeros_like(self.parent)  # of the end symbol
        self.count = self.parent.new_zeros(sentences)  # finished ones, kept or not

    def take(self, sentence: Tensor, total: Tensor, parent: Tensor, end: Tensor, step: int) -> None:
        """Take in the candidates (sentences, b) that end at this step, if they are good enough.

        sentence: (sentences,), their numbers in the batch; total: log P; parent: the places of the
        hypotheses that they continue; end: boolean.
        """
        ended = self.rules.accepted(end & total.gt(-torch.inf), self.count[sentence])
        score = (total / self.rules.penalty(step + 1)).masked_fill(~ended, -torch.inf)
        self.count[sentence] += ended.sum(dim=1)
        best = torch.cat((self.score[sentence], score), dim=1).topk(self.rules.kept, dim=1)
        self.score[sentence] = best.values
        new = {"total": total, "parent": parent, "step": torch.full_like(parent, step)}
        for name, value in new.items():
            kept = getattr(self, name)
            kept[sentence] = torch.cat((kept[sentence], value), dim=1).gather(1, best.indices)

    def read(self, history: History, eos: int) -> list[list[dict]]:
        """Return the hypotheses of each sentence, each read backwards from its end.

        For example, two places and three steps (token, parent):

            step 0   place 0: (a, 0)   place 1: (b, 0)
            step 1   place 0: (c, 1)   place 1: (d, 0)
            step 2   the end symbol after place 0

        The end follows place 0 of step 1, which is c; its parent is place 1 of step 0, which is b:
        the hypothesis is b, c, end.
        """
        place, end = self.parent, self.step
        length = int(end.max()) + 1 if end.numel() else 0
        tokens = place.new_full((*end.shape, length), eos)
        totals = self.total[:, :, None].repeat(1, 1, length)  # log P of the first t + 1 tokens
        attention: list[Tensor] = []
        for t in reversed(range(length)):
            if history.attention:
                attention.append(_at_places(*history.attention[t], place))
            if t == 0:
                break
            step = history.choices[t - 1]
            token, parent, score = (
                _at_places(step.sentence, values, place)
                for values in (step.token, step.parent, step.score)
            )
            reached = end >= t  # the hypothesis has a token at t − 1 that is not its end
            tokens[:, :, t - 1] = torch.where(reached, token, eos)
            totals[:, :, t - 1] = torch.where(reached, score, totals[:, :, t - 1])
            place = torch.where(reached, parent, place)
        weights = torch.stack(attention[::-1], dim=-1) if attention else None
        return self._dictionaries(tokens, totals, weights)

    def _dictionaries(
        self, tokens: Tensor, totals: Tensor, weights: Tensor | None
    ) -> list[list[dict]]:
        """Return the hypotheses in the form of fairseq's SequenceGenerator, on the CPU."""
        # The hypotheses leave the device only here.
        score, end, tokens, totals = (x.cpu() for x in (self.score, self.step, tokens, totals))
        weights = weights.cpu() if weights is not None else None
        positional = totals.diff(dim=2, prepend=torch.zeros_like(totals[:, :, :1]))
        return [
            [
                {
                    "tokens": tokens[i, j, : end[i, j] + 1],
                    "score": score[i, j],
                    "attention": weights[i, j, :, : end[i, j] + 1]
                    if weights is not None
                    else torch.empty(0),
                    "alignment": torch.empty(0),
                    "positional_scores": positional[i, j, : end[i, j] + 1],
                }
                for j in score[i].sort(descending=True, stable=True).indices
                if score[i, j] > -torch.inf
            ]
            for i in range(len(end))
        ]


def _at_places(sentence: Tensor, values: Tensor, place: Tensor) -> Tensor:
    """Return the values of the hypotheses at these places, (batch, kept, …).

    sentence (sentences,): which ones of the batch the rows of values (sentences, b, …) are for; the
    others were done, and get zeros. place: (batch, kept). For example, in a batch of two of which
    sentence 0 is done: sentence [1], values [[5, 6]], place [[0], [1]] give [[0], [6]].
    """
    all_sentences = values.new_zeros(len(place), *values.shape[1:])
    all_sentences[sentence] = values
    index = place.clamp(max=values.size(1) - 1)  # a place of a later step may be no place here
    index = index.view(*index.shape, *[1] * (values.dim() - 2))
    return all_sentences.gather(1, index.expand(*place.shape, *values.shape[2:]))
