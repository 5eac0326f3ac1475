"""§5.1 Batches of about 25,000 target tokens, for any number of devices."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np

#: Splits the sentences of an epoch into batches of at most max_tokens tokens, padding included.
MakeBatches = Callable[[int], list[np.ndarray]]


@dataclass(frozen=True)
class BatchPlan:
    """The batches of an epoch; an update uses update_freq batches on each of `devices` devices."""

    max_tokens: int  #: limit of one batch, padding included, like fairseq's --max-tokens
    update_freq: int
    devices: int
    updates: int  #: per epoch
    source_tokens: float  #: mean per update, without padding
    target_tokens: float  #: likewise on the target side
    padding: float  #: fraction of both sides

    def __str__(self) -> str:
        batches = "1 batch" if self.update_freq == 1 else f"{self.update_freq} batches"
        devices = "one device" if self.devices == 1 else f"each of {self.devices} devices"
        return (
            f"{self.updates:,} updates per epoch: each has {self.target_tokens:,.0f} target and "
            f"{self.source_tokens:,.0f} source tokens on average, in {batches} of at most "
            f"{self.max_tokens:,} tokens on {devices}, with {self.padding:.1%} padding"
        )


def sort_by_longer_side(order: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return sentence indices sorted by the length of the longer side; ties keep their order.

    order: (n,); sizes: (sentences, 2), source and target lengths. A batch is as wide as its longest
    sentence, so sorting by source length alone makes up to a third of the target side padding.
    """
    return order[np.argsort(sizes[order].max(axis=1), kind="stable")]


def plan_batches(
    make_batches: MakeBatches,
    sizes: np.ndarray,
    tokens_per_update: int,
    devices: int,
    max_tokens: int,
) -> BatchPlan:
    """Choose batch size and gradient accumulation for updates of tokens_per_update target tokens.

    sizes: (sentences, 2), source and target lengths; max_tokens: the capacity of one device, with
    padding. The plan has the fewest batches per update that fit, and the batch size that comes
    closest to tokens_per_update on average. For example, if one device holds 4,096 tokens, of which
    3,440 are not padding: 25,000 / 3,440 = 7.3, so an update has 8 batches of about 25,000 / 8 =
    3,125 tokens without padding.
    """
    batches = make_batches(max_tokens)
    full_plan = _build_plan(batches, sizes, max_tokens, 1, devices)
    # Tolerate updates that are 2% short rather than add a batch: 7.015 batches become 7.
    update_freq = max(1, ceil(tokens_per_update / full_plan.target_tokens - 0.02))
    # Binary search, since target tokens per update grow with max_tokens. A batch must hold the
    # longest sentence, so the search starts at its length.
    low, high = int(sizes[np.concatenate(batches)].max()), max_tokens
    candidates = []
    while low <= high:
        middle = (low + high) // 2
        candidate = _build_plan(make_batches(middle), sizes, middle, update_freq, devices)
        candidates.append(candidate)
        if candidate.target_tokens < tokens_per_update:
            low = middle + 1
        else:
            high = middle - 1
    return min(candidates, key=lambda plan: abs(plan.target_tokens - tokens_per_update))


def _build_plan(
    batches: list[np.ndarray], sizes: np.ndarray, max_tokens: int, update_freq: int, devices: int
) -> BatchPlan:
    """Return the plan for given batches, with its mean tokens per update."""
    source, target = sizes[np.concatenate(batches)].sum(axis=0)
    padded = sum(len(batch) * int(sizes[batch].max(axis=0).sum()) for batch in batches)
    updates = ceil(ceil(len(batches) / devices) / update_freq)
    return BatchPlan(
        max_tokens,
        update_freq,
        devices,
        updates,
        source / updates,
        target / updates,
        1 - (source + target) / padded,
    )
