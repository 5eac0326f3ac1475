"""Sentences are searched in batches, and a batch on a CPU in parts, each in a thread of its own."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from ..errors import InputError

#: A second thread inside the many small operations of a step gains little. A part has at least so
#: many sentences, because each part reads all weights at each step.
PART = 32

Batch = dict[str, Tensor]
Find = Callable[[Batch], list[list[dict]]]


def batches(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Yield the numbers of the sentences of each batch, the longest first.

    A batch has at most max_tokens tokens, with the padding to its longest sentence, or one
    sentence. For example, lengths of 3, 9, 4 and 8 with 18 tokens are [1, 3] and [2, 0].
    """
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > max_tokens:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def padded(sentences: Sequence[Tensor], padding: int) -> Tensor:
    """Return sentences as one tensor (sentences, m), with padding before the shorter ones."""
    width = max(map(len, sentences))
    together = torch.full((len(sentences), width), padding)
    for row, sentence in zip(together, sentences, strict=True):
        row[width - len(sentence) :] = sentence
    return together


def in_parts(find: Find, batch: Batch, separable: bool) -> list[list[dict]]:
    """Return find(batch), the hypotheses of each sentence, with a thread for each part.

    batch: tensors (sentences, …), "src_tokens" among them. separable: whether threads may share
    what `find` uses. Raises InputError if a sentence has no hypothesis.
    """
    source = batch["src_tokens"]
    parts = len(source) // PART if separable and source.device.type == "cpu" else 1
    hypotheses = _in_threads(find, batch, min(torch.get_num_threads(), parts))
    if [] in hypotheses:
        number = hypotheses.index([])
        raise InputError(
            f"no hypothesis for sentence {number} of a batch: the scores of the "
            "model are not numbers (try float32), or all tokens are forbidden"
        )
    return hypotheses


def _in_threads(find: Find, batch: Batch, parts: int) -> list[list[dict]]:
    """Search in n threads.

    A batch is sorted by length, so each thread takes every n-th sentence: with two threads one
    has 0, 2, 4 and the other 1, 3.
    """
    if parts < 2:
        return find(batch)
    threads = torch.get_num_threads()
    batches = [{name: x[i::parts] for name, x in batch.items()} for i in range(parts)]
    try:
        with ThreadPoolExecutor(
            parts, initializer=torch.set_num_threads, initargs=(threads // parts,)
        ) as pool:
            results = list(pool.map(find, batches))
    finally:
        torch.set_num_threads(threads)  # for threads that start later
    return [results[i % parts][i // parts] for i in range(len(batch["src_tokens"]))]
