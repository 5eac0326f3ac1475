"""§6.1 The rules of a search: the paper's, and fairseq's.

They differ in the length penalty, in the longest translation, and in when a sentence is done.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError


@dataclass(frozen=True)
class PaperRules:
    """GNMT's penalty (Wu et al., 2016, equation 14), a limit for each sentence, and a safe stop.

    alpha: α ≥ 0. limit_a, limit_b: a sentence of n tokens gets at most limit_a·n + limit_b tokens;
    neither number counts the end symbol. kept: how many finished hypotheses of a sentence are kept.
    early: stop a sentence when no open hypothesis can beat the worst kept one; False searches to
    the limit.
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
        """Return how many tokens each sentence gets, from lengths (sentences,) without the end."""
        return (self.limit_a * lengths + self.limit_b).long()

    def accepted(self, ended: Tensor, finished: Tensor) -> Tensor:
        """Return which ended candidates (sentences, b) compete for the kept places: all."""
        return ended

    def done(self, worst: Tensor, best_open: Tensor, finished: Tensor, limits: Tensor) -> Tensor:
        """Return which sentences are done (sentences,): nothing open can beat the worst kept."""
        return _decided(self, worst, best_open, limits)


@dataclass(frozen=True)
class FairseqRules:
    """fairseq's: log P / |Y|^lenpen, one limit for a batch, a stop at the `first` finished ones.

    fairseq returns all of them; here only the best `kept` are. With early, a sentence also stops
    when these can change no more, as in PaperRules.
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
        """Return limit_a·width + limit_b; width counts the longest sentence and its end symbol."""
        return torch.full_like(lengths, int(self.limit_a * width + self.limit_b))

    def accepted(self, ended: Tensor, finished: Tensor) -> Tensor:
        """Return which ended candidates get one of the first places; better candidates go first."""
        return ended & (finished[:, None] + ended.cumsum(dim=1) <= self.first)

    def done(self, worst: Tensor, best_open: Tensor, finished: Tensor, limits: Tensor) -> Tensor:
        """Return which sentences are done (sentences,): all places taken, or nothing can change."""
        return (finished >= self.first) | _decided(self, worst, best_open, limits)


Rules = PaperRules | FairseqRules


def _decided(rules: Rules, worst: Tensor, best_open: Tensor, limits: Tensor) -> Tensor:
    """Return for which sentences no open hypothesis can beat the worst kept one.

    worst: score of the worst kept hypothesis, best_open: log P of the best open one, limits: the
    longest translation; all (sentences,). log P only falls and the penalty only grows, so the best
    score within reach is log P over the penalty of the longest translation. For example: worst
    −2.0, best open log P −5.0, penalty of the longest translation 2.0: the open one reaches at best
    −5.0 / 2.0 = −2.5, and the sentence is done.
    """
    if not rules.early:
        return torch.zeros_like(worst, dtype=torch.bool)
    return worst >= best_open / rules.penalty(limits.to(best_open) + 1)


def rules_of(args: Any, paper: bool, vocabulary: int) -> Rules:
    """Return the rules of a search; vocabulary: the entries of the target dictionary.

    Raises InputError if there is no such search.
    """
    _check(args, paper, vocabulary)
    exponent = 0.0 if args.unnormalized else args.lenpen
    kept = min(args.nbest, args.beam)
    # If an option lets scores rise, nothing is decided before the limit.
    early = min(exponent, args.unkpen, args.lm_weight) >= 0
    if paper:
        return PaperRules(exponent, args.max_len_a, args.max_len_b, kept, early)
    return FairseqRules(exponent, args.max_len_a, args.max_len_b, kept, args.beam, early)


def _check(args: Any, paper: bool, vocabulary: int) -> None:
    if not 1 <= args.beam < vocabulary:
        raise InputError(
            f"--beam {args.beam} must be at least 1, and less than the {vocabulary} "
            "entries of the target dictionary"
        )
    if paper and not 0 <= args.lenpen < math.inf:
        raise InputError(
            f"--lenpen {args.lenpen} must not be negative: it is α of the GNMT penalty (§6.1)"
        )
    if args.nbest < 1:
        raise InputError(f"--nbest {args.nbest} must be at least 1")
    if min(args.max_len_a, args.max_len_b) < 0:
        raise InputError("--max-len-a and --max-len-b must not be negative")
