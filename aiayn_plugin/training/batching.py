"""§5.1 Batches of about 25,000 target tokens, whatever the number of devices."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np

#: Cuts sentences of known sizes, in order, into batches of at most so many tokens.
Cut = Callable[[int], list[np.ndarray]]


@dataclass(frozen=True)
class Plan:
    """How an epoch is cut: each update takes update_freq batches on each of `devices` devices."""

    max_tokens: int  #: limit of one batch, padding included, as fairseq's --max-tokens
    update_freq: int
    devices: int
    updates: int  #: of an epoch
    source_tokens: float  #: mean of an update, without padding
    target_tokens: float  #: the same of the target side
    padding: float  #: fraction of the target side

    def __str__(self) -> str:
        return (
            f"{self.updates:,} updates per epoch, of {self.target_tokens:,.0f} target and "
            f"{self.source_tokens:,.0f} source tokens in the mean, without padding "
            f"({self.padding:.1%} of the target side): {self.update_freq} batches of at most "
            f"{self.max_tokens:,} tokens on each of {self.devices} devices"
        )


def plan(
    cut: Cut, sizes: np.ndarray, tokens_per_update: int, devices: int, max_tokens: int
) -> Plan:
    """Choose batch size and gradient accumulation for updates of tokens_per_update target tokens.

    sizes: (sentences, 2), the source and target length of each; max_tokens: what one device can
    hold. The plan has the fewest batches per update that fit, each as small as the mean allows. For
    example, 25,000 target tokens on one device that holds 4,096 padded tokens, of which 3,440 are
    real ones: 25,000 / 3,440 = 7.3, so 8 batches, of about 25,000 / 8 = 3,125 real tokens each.
    """
    batches = cut(max_tokens)
    largest = _measure(batches, sizes, max_tokens, 1, devices)
    # 2 % too few tokens do not cost one more batch: 7.015 batches are 7.
    update_freq = max(1, ceil(tokens_per_update / largest.target_tokens - 0.02))
    # The target tokens of an update grow with the size of its batches: search by halves.
    # A batch holds at least one sentence, so no limit below the longest one makes sense.
    low, high = int(sizes[np.concatenate(batches)].max()), max_tokens
    best: Plan | None = None
    while low <= high:
        middle = (low + high) // 2
        candidate = _measure(cut(middle), sizes, middle, update_freq, devices)
        if best is None or _error(candidate, tokens_per_update) < _error(best, tokens_per_update):
            best = candidate
        if candidate.target_tokens < tokens_per_update:
            low = middle + 1
        else:
            high = middle - 1
    return best or largest


def _measure(
    batches: list[np.ndarray], sizes: np.ndarray, max_tokens: int, update_freq: int, devices: int
) -> Plan:
    """Return the plan that these batches make up."""
    source, target = sizes[np.concatenate(batches)].sum(axis=0)
    padded = sum(len(batch) * int(sizes[batch, 1].max()) for batch in batches)
    updates = ceil(ceil(len(batches) / devices) / update_freq)
    return Plan(
        max_tokens,
        update_freq,
        devices,
        updates,
        source / updates,
        target / updates,
        1 - target / padded,
    )


def _error(candidate: Plan, tokens_per_update: int) -> float:
    return abs(candidate.target_tokens - tokens_per_update)
