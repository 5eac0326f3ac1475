"""§6.1 The rules of a search: the paper's (GNMT's length penalty, a limit per sentence, a stop that
loses nothing), and fairseq's."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class PaperRules:
    """GNMT's penalty (Wu et al., 2016, equation 14), a limit of each sentence's own, and a stop
    when no open hypothesis can beat the worst of the `kept` finished ones.

    alpha: α ≥ 0. limit_a, limit_b: a sentence of n tokens, its end symbol not counted, gets at most
    limit_a·n + limit_b, not counting the end symbol. early: stop as soon as nothing can change;
    False searches to the limit.
    """

    alpha: float
    limit_a: float
    limit_b: int
    kept: int
    early: bool = True

    def penalty(self, length: Any) -> Any:
        """lp(Y) = ((5 + |Y|) / (5 + 1))^α; |Y| counts the end symbol."""
        return ((5 + length) / 6) ** self.alpha

    def limits(self, lengths: Tensor, width: int) -> Tensor:
        """How many tokens each sentence gets, (sentences,), from lengths without end symbol."""
        return (self.limit_a * lengths + self.limit_b).long()

    def accepted(self, ended: Tensor, finished: Tensor) -> Tensor:
        """Which ended candidates (sentences, b) compete for the kept places: all."""
        return ended

    def done(self, worst: Tensor, best_open: Tensor, finished: Tensor, limits: Tensor) -> Tensor:
        """(sentences,): True where no open hypothesis can still beat the worst kept one."""
        return _certain(self, worst, best_open, limits)


@dataclass(frozen=True)
class FairseqRules:
    """fairseq's: log P / |Y|^lenpen, one limit for a batch, a stop at the `first` finished ones.

    Only the best `kept` of these are returned; early: stop as soon as they cannot change, as
    PaperRules do, where fairseq would go on until it has all.
    """

    lenpen: float
    limit_a: float
    limit_b: int
    kept: int
    first: int
    early: bool = True

    def penalty(self, length: Any) -> Any:
        """|Y|^lenpen; |Y| counts the end symbol."""
        return length**self.lenpen

    def limits(self, lengths: Tensor, width: int) -> Tensor:
        """limit_a·width + limit_b, where width is the longest sentence's, its end symbol too."""
        return torch.full_like(lengths, int(self.limit_a * width + self.limit_b))

    def accepted(self, ended: Tensor, finished: Tensor) -> Tensor:
        """The first ones for which there is a place, best candidates first."""
        return ended & (finished[:, None] + ended.cumsum(dim=1) <= self.first)

    def done(self, worst: Tensor, best_open: Tensor, finished: Tensor, limits: Tensor) -> Tensor:
        """(sentences,): True where fairseq stops, or where nothing better can come."""
        return (finished >= self.first) | _certain(self, worst, best_open, limits)


def _certain(
    rules: PaperRules | FairseqRules, worst: Tensor, best_open: Tensor, limits: Tensor
) -> Tensor:
    """(sentences,): True where no open hypothesis can beat the worst kept one, if rules.early.

    Log-probabilities only fall and the penalty only grows, so that an open log P reaches at best
    log P over the penalty of limit + 1 tokens.
    """
    if not rules.early:
        return torch.zeros_like(worst, dtype=torch.bool)
    return worst >= best_open / rules.penalty(limits.to(best_open) + 1)
