"""§6.1 Batches of sentences of similar length; on a CPU, threads that search chunks of a batch."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..text.dictionary import Vocabulary
from .hypotheses import Hypothesis

#: Minimum number of sentences per thread, since each thread reads all weights at every step.
MIN_CHUNK = 32

Result = TypeVar("Result")


def batches_by_length(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Yield the sentence indices of each batch, the longest sentences first.

    A batch has at most max_tokens tokens, padding included, unless it is a single sentence. For
    example, lengths 3, 9, 4 and 8 with 18 tokens give [1, 3] and [2, 0].
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > max_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def search_by_length(
    search_batch: Callable[[Tensor], list[list[Hypothesis]]],
    sentences: Sequence[Tensor],
    max_tokens: int,
    progress: Callable[[int], object] = lambda sentences: None,
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each sentence, searched in batches_by_length.

    search_batch: maps tokens (batch, m) to each row's hypotheses. sentences: token IDs, the end
    symbol last. progress is called after each batch with its number of sentences.
    """
    hypotheses: list[list[Hypothesis]] = [[] for _ in sentences]
    for batch in batches_by_length(list(map(len, sentences)), max_tokens):
        rows = [sentences[index] for index in batch]
        results = search_batch(pad_sequence(rows, True, Vocabulary.pad, padding_side="left"))
        for index, result in zip(batch, results, strict=True):
            hypotheses[index] = result
        progress(len(batch))
    return hypotheses


def search_in_threads(
    search: Callable[[slice], list[Result]], threads: int, rows: slice
) -> list[Result]:
    """Return search(rows) of a batch on a CPU, in threads of MIN_CHUNK rows or more.

    One search per thread uses a CPU better than multithreaded operations, because a step consists
    of many small operations. A batch is sorted by length, so each thread takes every n-th sentence:
    with two threads, the first has rows 0, 2, 4 and the second 1, 3.
    """
    sentences = rows.stop - rows.start
    chunks = min(threads, sentences // MIN_CHUNK)
    if chunks < 2:
        return search(rows)
    started, before = Barrier(chunks + 1), torch.get_num_threads()

    def take_share() -> None:
        torch.get_num_threads()  # a thread's first call resets its number of threads
        torch.set_num_threads(max(1, threads // chunks))
        started.wait()

    with ThreadPoolExecutor(chunks, initializer=take_share) as pool:
        starts = range(rows.start, rows.start + chunks)
        iterator = pool.map(search, [slice(i, rows.stop, chunks) for i in starts])
        started.wait()
        torch.set_num_threads(before)  # for threads that start later
    results = list(iterator)
    return [results[i % chunks][i // chunks] for i in range(sentences)]
