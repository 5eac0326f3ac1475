"""§5.1: a plan of --tokens-per-update for one of fairseq's datasets."""

from typing import Any

import numpy as np
from fairseq.data import data_utils

from ..training.batching import BatchPlan, plan_batches


def plan_epoch(
    dataset: Any, tokens_per_update: int, max_tokens: int, options: dict[str, Any]
) -> BatchPlan:
    """Return how the training set is cut. options: those of FairseqTask.get_batch_iterator."""
    # fairseq shuffles with this seed before it sorts; outside, the generator stays where it was.
    with data_utils.numpy_seed(options.get("seed", 1) + options.get("epoch", 1)):
        order = dataset.ordered_indices()
    if options.get("max_positions") is not None:
        order, _ = dataset.filter_indices_by_size(order, options["max_positions"])
    sizes = np.stack((dataset.src_sizes, dataset.tgt_sizes), axis=1).astype(np.int64)
    widths = sizes.max(axis=1)[order]

    def cut(limit: int) -> list[np.ndarray]:
        return data_utils.batch_by_size(
            order,
            None,
            num_tokens_vec=widths,
            max_tokens=limit,
            max_sentences=options.get("max_sentences"),
            required_batch_size_multiple=options.get("required_batch_size_multiple", 1),
        )

    return plan_batches(cut, sizes, tokens_per_update, options.get("num_shards", 1), max_tokens)


def keep_first_epoch_batches(options: dict[str, Any]) -> None:
    """Make the training set's batches those of the first epoch in whichever epoch a run resumes.

    options: those of FairseqTask.get_batch_iterator. fairseq-fixed makes the batches once, with the
    epoch in which the process starts as the seed. A run resumed in its third epoch would get
    different batches, and repeat some sentences in that epoch and miss others. The order of the
    batches still depends on the epoch.
    """
    rebuilds = ("disable_iterator_cache", "update_epoch_batch_itr")  # new batches for each epoch
    if not any(options.get(option) for option in rebuilds):
        options["epoch"] = 1
