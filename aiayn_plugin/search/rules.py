"""§6.1 The rules of a search: the paper's and fairseq's.

They differ in the length penalty, the limit on the length, and the stopping rule.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..paper import SearchSettings

#: Limit of the length penalty's exponent. Larger values overflow, and would rank by length alone.
MAX_EXPONENT = 10
#: Larger limits of --max-len-a and --max-len-b could overflow.
MAX_LENGTH = 10**9


@dataclass(frozen=True)
class PaperRules:
    """The paper's rules, the base of fairseq's: GNMT's penalty, a limit, and an early stop.

    A sentence of n tokens gets at most max_len_a·n + max_len_b tokens; neither number counts the
    end symbol. kept: number of finished hypotheses to return per sentence. stop_early: end a
    sentence once no open hypothesis can beat the worst kept one; else search to the limit.
    """

    alpha: float
    max_len_a: float
    max_len_b: int
    kept: int
    stop_early: bool = True

    def penalty(self, length: Any) -> Any:
        """lp(Y) = ((5 + |Y|) / (5 + 1))^α; |Y| counts the end symbol."""
        return ((5 + length) / 6) ** self.alpha

    def limits(self, lengths: Tensor, width: int) -> Tensor:
        """Return the token limit of each sentence; lengths (batch,) exclude the end symbol."""
        return (self.max_len_a * lengths + self.max_len_b).long()

    def accept(self, ended: Tensor, finished: Tensor) -> Tensor:
        """Return which ended candidates (batch, b) may be kept: all of them."""
        return ended

    def are_finished(
        self, worst: Tensor, best_open: Tensor, finished: Tensor, limits: Tensor
    ) -> Tensor:
        """Return which sentences (batch,) are finished: no open hypothesis can beat the worst kept.

        worst: score of the worst kept hypothesis; best_open: log P of the best open one; limits:
        length of the longest translation; all (batch,). log P only falls and the penalty only
        grows, so log P over the penalty of the longest translation bounds every reachable score.
        For example: worst −2.0, best open log P −5.0, penalty of the longest translation 2.0: the
        open hypothesis reaches at most −5.0 / 2.0 = −2.5, so the sentence is finished.
        """
        if not self.stop_early:
            return torch.zeros_like(worst, dtype=torch.bool)
        return worst >= best_open / self.penalty(limits.to(best_open) + 1)


@dataclass(frozen=True)
class FairseqRules(PaperRules):
    """fairseq's rules: log P / |Y|^α, a limit per batch, stopping at `beam` hypotheses.

    fairseq returns all finished hypotheses, this class only the best `kept`. With stop_early, a
    sentence also ends once those cannot change, as in PaperRules.
    """

    beam: int = field(kw_only=True)

    def penalty(self, length: Any) -> Any:
        """|Y|^α; |Y| counts the end symbol."""
        return length**self.alpha

    def limits(self, lengths: Tensor, width: int) -> Tensor:
        """Return max_len_a·width + max_len_b; width is the longest source with its end symbol."""
        return torch.full_like(lengths, int(self.max_len_a * width + self.max_len_b))

    def accept(self, ended: Tensor, finished: Tensor) -> Tensor:
        """Return which ended candidates (batch, b), best first, are among the first `beam`."""
        return ended & (finished[:, None] + ended.cumsum(dim=1) <= self.beam)

    def are_finished(
        self, worst: Tensor, best_open: Tensor, finished: Tensor, limits: Tensor
    ) -> Tensor:
        """Return which sentences (batch,) have `beam` finished hypotheses, or cannot change."""
        is_decided = super().are_finished(worst, best_open, finished, limits)
        return (finished >= self.beam) | is_decided


def build_rules(settings: SearchSettings, vocabulary_size: int) -> PaperRules:
    """Return the rules of a search. Raises InputError for invalid settings."""
    _check(settings, vocabulary_size)
    exponent = 0.0 if settings.unnormalized else settings.lenpen
    kept = min(settings.nbest, settings.beam)
    # With a negative lenpen or unkpen scores can rise, so nothing is decided before the limit.
    stop_early = settings.stop_early and min(exponent, settings.unkpen) >= 0
    common = exponent, settings.max_len_a, settings.max_len_b, kept, stop_early
    if settings.length_penalty == "gnmt":
        return PaperRules(*common)
    return FairseqRules(*common, beam=settings.beam)


def _check(settings: SearchSettings, vocabulary_size: int) -> None:
    if not 1 <= settings.beam < vocabulary_size:
        raise InputError(
            f"--beam {settings.beam} must be at least 1 and below the {vocabulary_size} entries of "
            "the target dictionary"
        )
    if settings.length_penalty not in ("gnmt", "fairseq"):
        raise InputError(f"--length-penalty {settings.length_penalty} must be gnmt or fairseq")
    if settings.length_penalty == "gnmt" and not 0 <= settings.lenpen <= MAX_EXPONENT:
        raise InputError(
            f"--lenpen {settings.lenpen} must be from 0 to {MAX_EXPONENT}: it is α of the GNMT "
            "penalty (§6.1)"
        )
    if not abs(settings.lenpen) <= MAX_EXPONENT:
        raise InputError(
            f"--lenpen {settings.lenpen} must be from -{MAX_EXPONENT} to {MAX_EXPONENT}"
        )
    if not settings.unkpen > -math.inf:
        raise InputError(f"--unkpen {settings.unkpen} must be finite, or inf, which forbids <unk>")
    if settings.nbest < 1:
        raise InputError(f"--nbest {settings.nbest} must be at least 1")
    if not (0 <= settings.max_len_a <= MAX_LENGTH and 0 <= settings.max_len_b <= MAX_LENGTH):
        raise InputError(f"--max-len-a and --max-len-b must be from 0 to {MAX_LENGTH:,}")
    if not settings.temperature > 0:
        raise InputError(f"--temperature {settings.temperature} must be above 0")
