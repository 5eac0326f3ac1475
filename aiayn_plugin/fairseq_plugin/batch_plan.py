"""§5.1: batches for --tokens-per-update."""

import functools
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from fairseq.data import data_utils

from ..errors import InputError
from ..training.batching import BatchPlan, plan_batches, sort_by_longer_side

logger = logging.getLogger(__name__)

#: Tolerated deviation of the mean tokens per update from --tokens-per-update, as a fraction.
TOLERANCE = 0.05


class BatchPlanner:
    """Plans the batches of a training set, and keeps the plan for its later epochs."""

    def __init__(self, tokens_per_update: int) -> None:
        self.tokens_per_update = tokens_per_update
        self.plan: BatchPlan | None = None
        self._planned_for: tuple | None = None

    def plan_epoch(self, dataset: Any, max_tokens: int, options: Mapping[str, Any]) -> BatchPlan:
        """Return the plan of an epoch.

        dataset: a LanguagePairDataset; sharded data has a different one in each epoch. options:
        the keyword arguments of FairseqTask.get_batch_iterator.
        """
        devices = options.get("num_shards", 1)
        if self.plan is not None and self._planned_for == (dataset, max_tokens, devices):
            return self.plan
        # fairseq shuffles with this seed before it sorts by length.
        with data_utils.numpy_seed(options.get("seed", 1) + options.get("epoch", 1)):
            order = dataset.ordered_indices()
        if options.get("max_positions") is not None:
            order, _ = dataset.filter_indices_by_size(order, options["max_positions"])
        if not len(order):
            raise InputError(
                "every training sentence exceeds --max-tokens or the position limits: raise them"
            )
        sizes = sentence_sizes(dataset)
        make_batches = functools.partial(
            dataset.batch_by_size,
            sort_by_longer_side(order, sizes),
            required_batch_size_multiple=options.get("required_batch_size_multiple", 1),
        )
        self.plan = plan_batches(make_batches, sizes, self.tokens_per_update, devices, max_tokens)
        self._planned_for = dataset, max_tokens, devices
        logger.info("%s", self.plan)
        excess = self.plan.target_tokens / self.tokens_per_update - 1
        if abs(excess) > TOLERANCE and options.get("shard_id", 0) == 0:  # one process warns
            logger.warning(
                "updates have %s target tokens on average, %.0f%% %s than --tokens-per-update %s: "
                "no batch size comes closer for this corpus and number of devices",
                f"{self.plan.target_tokens:,.0f}",
                100 * abs(excess),
                "more" if excess > 0 else "fewer",
                f"{self.tokens_per_update:,}",
            )
        return self.plan


def sentence_sizes(dataset: Any) -> np.ndarray:
    """Return the source and target lengths of a LanguagePairDataset: (sentences, 2)."""
    return np.stack((dataset.src_sizes, dataset.tgt_sizes), axis=1).astype(np.int64)


def keep_first_epoch_batches(options: dict[str, Any], seed: int) -> None:
    """Use the first epoch's batches of the training set, in whichever epoch a run resumes.

    options: those of FairseqTask.get_batch_iterator. seed: the first epoch's, which
    --update-ordered-indices-seed changes. fairseq-fixed makes the batches once, with the epoch in
    which the process starts as the seed: a run resumed in its third epoch would repeat some of that
    epoch's sentences and miss others. Only the order of the batches depends on the epoch.
    """
    rebuilds = ("disable_iterator_cache", "update_epoch_batch_itr")  # new batches for each epoch
    if not any(options.get(option) for option in rebuilds):
        options["epoch"], options["seed"] = 1, seed
