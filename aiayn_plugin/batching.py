"""§5.1 Batches of about 25,000 target tokens, whatever the number of devices."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np


@dataclass(frozen=True)
class Plan:
    """How an epoch is cut: each update takes update_freq batches on each of `devices` devices."""

    max_tokens: int  #: limit of one batch, padding included, as fairseq's --max-tokens
    update_freq: int
    devices: int
    updates: int  #: in an epoch
    source_tokens: float  #: mean of an update, without padding
    target_tokens: float
    padding: float  #: fraction of the target side

    def __str__(self) -> str:
        return (
            f"{self.updates:,} updates per epoch, of {self.target_tokens:,.0f} target and "
            f"{self.source_tokens:,.0f} source tokens in the mean, without padding "
            f"({self.padding:.1%} of the target side): {self.update_freq} batches of at most "
            f"{self.max_tokens:,} tokens on each of {self.devices} devices"
        )


#: Cuts sentences of these sizes (in order) into batches of at most max_tokens tokens each.
Cut = Callable[[int], list[np.ndarray]]


def _measure(
    batches: list[np.ndarray], sizes: np.ndarray, max_tokens: int, update_freq: int, devices: int
) -> Plan:
    source, target = sizes[np.concatenate(batches)].sum(axis=0)
    padded = sum(len(batch) * int(sizes[batch, 1].max()) for batch in batches)
    updates = ceil(ceil(len(batches) / devices) / update_freq)
    return Plan(
        max_tokens, update_freq, devices, updates,
        source / updates, target / updates, 1 - target / padded,
    )


def plan(
    cut: Cut, sizes: np.ndarray, tokens_per_update: int, devices: int, max_tokens: int
) -> Plan:
    """Choose batch size and gradient accumulation so that an update has tokens_per_update
    target tokens in the mean of an epoch.

    sizes: (sentences, 2), the source and target length of each; max_tokens: what one device can
    hold. The fewest batches per update that fit are taken, each as small as the mean asks for.
    """
    batches = cut(max_tokens)
    largest = _measure(batches, sizes, max_tokens, 1, devices)
    longest = int(sizes[np.concatenate(batches)].max())  # a batch holds at least one sentence
    update_freq = max(1, ceil(tokens_per_update / largest.target_tokens - 0.02))
    low, high, best = longest, max_tokens, None
    while low <= high:
        middle = (low + high) // 2
        found = _measure(cut(middle), sizes, middle, update_freq, devices)
        error = abs(found.target_tokens - tokens_per_update)
        if best is None or error < abs(best.target_tokens - tokens_per_update):
            best = found
        if found.target_tokens < tokens_per_update:
            low = middle + 1
        else:
            high = middle - 1
    return best or largest
