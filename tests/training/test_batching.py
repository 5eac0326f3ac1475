"""§5.1: updates of 25,000 target tokens on average, for any number of devices."""

import numpy as np
import pytest
from fairseq.data.data_utils import batch_by_size

from aiayn_plugin.training.batching import plan_batches, sort_by_longer_side


@pytest.fixture(scope="module")
def corpus():
    """Log-normal lengths, correlated between the sides, as in a translation corpus."""
    rng = np.random.default_rng(1)
    source = np.clip(np.exp(rng.normal(3.1, 0.6, 60_000)), 2, 250)
    target = np.clip(source * np.exp(rng.normal(0.05, 0.2, source.size)), 2, 250)
    sizes = np.stack((source, target), axis=1).astype(np.int64)
    order = np.lexsort((sizes[:, 0], sizes[:, 1]))
    widths = sizes.max(axis=1)[order]

    def make_batches(max_tokens):
        return batch_by_size(order, None, num_tokens_vec=widths, max_tokens=max_tokens)

    return make_batches, sizes


def equal_sentences(number, length):
    """Return a function that forms batches of sentences of one length, and their sizes."""
    sizes = np.full((number, 2), length, dtype=np.int64)

    def make_batches(limit):
        return batch_by_size(np.arange(number), None, num_tokens_vec=sizes[:, 0], max_tokens=limit)

    return make_batches, sizes


@pytest.mark.parametrize("devices", [1, 2, 8])
@pytest.mark.parametrize("capacity", [2048, 4096, 16384])
def test_updates_hold_tokens_per_update_on_average(corpus, devices, capacity):
    make_batches, sizes = corpus
    plan = plan_batches(make_batches, sizes, 25_000, devices, capacity)
    batches = make_batches(plan.max_tokens)
    padded = [len(b) * sizes[b].max() for b in batches]
    assert max(padded) <= capacity
    assert sum(map(len, batches)) == len(sizes), "a sentence was dropped"
    # fairseq deals the batches to the devices in turn and accumulates update_freq of them
    per_device = -(-len(batches) // devices)
    updates = -(-per_device // plan.update_freq)
    assert sizes[:, 1].sum() / updates == pytest.approx(25_000, rel=0.05)
    assert plan.updates == updates
    assert plan.target_tokens == pytest.approx(sizes[:, 1].sum() / updates)
    assert plan.source_tokens == pytest.approx(sizes[:, 0].sum() / updates)


def test_sentences_of_equal_length_keep_their_order():
    """numpy's default sort orders ties by the processor's instructions."""
    sizes = np.array([[3, 9], [9, 5], [4, 2]] * 100)
    order = np.random.default_rng(1).permutation(300)
    expected = [*(i for i in order if i % 3 == 2), *(i for i in order if i % 3 < 2)]
    assert sort_by_longer_side(order, sizes).tolist() == expected


def test_update_freq_is_1_if_one_batch_suffices(corpus):
    make_batches, sizes = corpus
    assert plan_batches(make_batches, sizes, 25_000, 8, 4096).update_freq == 1
    assert plan_batches(make_batches, sizes, 25_000, 1, 60_000).update_freq == 1


@pytest.mark.parametrize("tokens, update_freq", [(700, 7), (701, 7), (703, 8)])
def test_updates_may_be_2_percent_of_a_batch_short(tokens, update_freq):
    """A batch of at most 105 tokens holds 10 sentences of 10 tokens."""
    assert plan_batches(*equal_sentences(1000, 10), tokens, 1, 105).update_freq == update_freq


def test_filtered_sentences_do_not_count(corpus):
    """fairseq's length filter removes a sentence from the order, not from the sizes."""
    make_batches, sizes = corpus
    longer = np.concatenate((sizes, [[5000, 5000]]))
    assert plan_batches(make_batches, longer, 25_000, 1, 4096) == plan_batches(
        make_batches, sizes, 25_000, 1, 4096
    )


def test_corpus_smaller_than_one_update():
    plan = plan_batches(*equal_sentences(10, 7), 25_000, 1, 4096)
    assert (plan.updates, plan.target_tokens) == (1, 70)
