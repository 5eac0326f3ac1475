"""Steps over two parallel files: on all cores, in the order of the lines, in bounded memory."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.lines import strip_line_ends

from .console import progress

BATCH_LINES = 2000
#: Batches in memory for each worker. Without a limit the whole text would be read ahead.
BATCHES_AHEAD = 4

Langs = tuple[str, str]
Files = tuple[Path, Path]
LinePairs = list[tuple[bytes, bytes]]
Counts = Counter[str]


class Workers(NamedTuple):
    """A pool of processes, and the number of them."""

    pool: ProcessPoolExecutor
    processes: int


class Batch(NamedTuple):
    """The result of a step on some line pairs.

    `sides` has the lines of the pairs that were kept, as bytes. `read` is the number of pairs read,
    `dropped` the number of pairs dropped for each reason, `words` the count of each word.
    """

    sides: tuple[bytes, bytes]
    read: int
    dropped: Counts
    words: Counts

    @classmethod
    def of(cls, kept: list[tuple[str, str]], read: int, dropped: Counts, words: Counts) -> "Batch":
        """Return the batch of the pairs that were kept."""
        source, target = ("".join(f"{pair[side]}\n" for pair in kept).encode() for side in (0, 1))
        return cls((source, target), read, dropped, words)


Step = Callable[[LinePairs], Batch]


@contextlib.contextmanager
def start_workers(count: int) -> Iterator[Workers]:
    """Give a pool of processes. They end with this process, however it ends."""
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(count, context, initializer=_start_worker) as pool:
        try:
            yield Workers(pool, count)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _start_worker() -> None:
    """Leave interrupts to the parent, which cleans up, and end when the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        if parent:
            parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def transform_files(
    workers: Workers, step: Step, sources: Sequence[Files], dests: Files, total: int, activity: str
) -> tuple[Counts, Counts]:
    """Write the two files `dests` from the sources, one source after the other.

    `step` makes a batch of some pairs of lines. The progress shows `activity` and how many of
    `total` lines are read. Return how many pairs were dropped for each reason, and the count of
    each word.

    Raises InputError if the two files of a source have different numbers of lines.
    """
    dropped, words = Counts(), Counts()
    with contextlib.ExitStack() as stack:
        outputs = [stack.enter_context(open(dest, "wb")) for dest in dests]
        for batch in map_pairs(workers, step, sources, total, activity):
            for output, side in zip(outputs, batch.sides, strict=True):
                output.write(side)
            dropped.update(batch.dropped)
            words.update(batch.words)
    return dropped, words


def map_pairs(
    workers: Workers,
    step: Callable[[LinePairs], Any],
    sources: Sequence[Files],
    total: int,
    activity: str,
) -> Iterator[Any]:
    """Yield what `step` makes of some pairs of lines at a time, one source after the other.

    It has to have `read`, the number of pairs. The progress shows `activity` and how many of
    `total` lines are read.

    Raises InputError if the two files of a source have different numbers of lines.
    """

    def describe(done: int) -> str:
        return f"{activity}: {done:,} of {total:,} lines"

    with contextlib.ExitStack() as stack:
        opened = [[stack.enter_context(open(file, "rb")) for file in files] for files in sources]
        pairs = (pair for files in opened for pair in _in_step(files))
        batches = iter(lambda: list(islice(pairs, BATCH_LINES)), [])
        add = stack.enter_context(progress(describe, total, desc=activity, unit=" lines"))
        for result in _in_order(workers, step, batches):
            yield result
            add(result.read)


def _in_step(files: Sequence[Iterable[bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the pairs of lines of two files. Raises InputError if one file ends first."""
    sides = zip_longest(*map(strip_line_ends, files))
    for number, (source, target) in enumerate(sides, start=1):
        if source is None or target is None:
            text = "one of two parallel files"
            raise InputError(f"{text} ends before line {number}: was it changed?")
        yield source, target


def _in_order(
    workers: Workers, step: Callable[[LinePairs], Any], batches: Iterator[LinePairs]
) -> Iterator[Any]:
    """Yield the results in the order of the batches.

    pool.map would read all batches at once; this function reads a few ahead.
    """
    pending: deque[Future[Any]] = deque()
    for batch in batches:
        pending.append(workers.pool.submit(step, batch))
        if len(pending) > BATCHES_AHEAD * workers.processes:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()
