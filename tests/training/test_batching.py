"""§5.1: 25,000 target tokens an update in the mean, whatever the devices."""

import numpy as np
import pytest
from fairseq.data.data_utils import batch_by_size

from aiayn_plugin.training.batching import plan


@pytest.fixture(scope="module")
def corpus():
    """Lengths like those of a translation corpus: log-normal, both sides correlated."""
    rng = np.random.default_rng(1)
    source = np.clip(np.exp(rng.normal(3.1, 0.6, 60_000)), 2, 250)
    target = np.clip(source * np.exp(rng.normal(0.05, 0.2, source.size)), 2, 250)
    sizes = np.stack((source, target), axis=1).astype(np.int64)
    order = np.lexsort((sizes[:, 0], sizes[:, 1]))
    widths = sizes.max(axis=1)[order]

    def cut(limit):
        return batch_by_size(order, None, num_tokens_vec=widths, max_tokens=limit)

    return cut, sizes


@pytest.mark.parametrize("devices", [1, 2, 8])
@pytest.mark.parametrize("capacity", [2048, 4096, 16384])
def test_mean_of_an_epoch(corpus, devices, capacity):
    cut, sizes = corpus
    chosen = plan(cut, sizes, 25_000, devices, capacity)
    batches = cut(chosen.max_tokens)
    padded = [len(b) * sizes[b].max() for b in batches]
    assert max(padded) <= capacity
    assert sum(map(len, batches)) == len(sizes), "a sentence is lost"
    # the updates of an epoch, as fairseq deals the batches to devices and accumulates
    per_device = -(-len(batches) // devices)
    updates = -(-per_device // chosen.update_freq)
    assert sizes[:, 1].sum() / updates == pytest.approx(25_000, rel=0.05)
    assert chosen.updates == updates
    assert chosen.target_tokens == pytest.approx(sizes[:, 1].sum() / updates)
    assert chosen.source_tokens == pytest.approx(sizes[:, 0].sum() / updates)


def test_no_more_batches_than_a_device_needs(corpus):
    cut, sizes = corpus
    assert plan(cut, sizes, 25_000, 8, 4096).update_freq == 1
    assert plan(cut, sizes, 25_000, 1, 60_000).update_freq == 1


def test_a_sentence_that_is_left_out_changes_nothing(corpus):
    """fairseq's filter takes a sentence that is too long out of the order, not out of the sizes."""
    cut, sizes = corpus
    longer = np.concatenate((sizes, [[5000, 5000]]))
    assert plan(cut, longer, 25_000, 1, 4096) == plan(cut, sizes, 25_000, 1, 4096)


def test_a_corpus_smaller_than_one_update():
    sizes = np.full((10, 2), 7, dtype=np.int64)
    chosen = plan(
        lambda limit: batch_by_size(
            np.arange(10), None, num_tokens_vec=sizes[:, 0], max_tokens=limit
        ),
        sizes,
        25_000,
        1,
        4096,
    )
    assert (chosen.updates, chosen.target_tokens) == (1, 70)
