"""Running a step over parallel files: on all cores, in order, and in bounded memory."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice
from typing import NamedTuple

from tqdm import tqdm

from aiayn_plugin.text import read_lines

BATCH_LINES = 2000
BATCHES_AHEAD = 4  # for each worker, so that the text in memory stays bounded

Langs = tuple[str, str]
Pairs = list[tuple[str, str]]


class Workers(NamedTuple):
    """A pool of processes, and how many they are."""

    pool: ProcessPoolExecutor
    processes: int


class Batch(NamedTuple):
    """Line pairs after a step, and what the step counted."""

    pairs: Pairs
    read: int
    dropped: Counter[str] = Counter()
    words: Counter[str] = Counter()


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


@contextlib.contextmanager
def start_workers(count: int) -> Iterator[Workers]:
    """Give a pool of processes; they end with this one, however it ends."""
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(count, context, initializer=_start_worker) as pool:
        try:
            yield Workers(pool, count)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent cleans up
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent:
            parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def transform_files(
    workers: Workers,
    langs: Langs,
    step: Callable[[Pairs], Batch],
    source: str,
    dest: str,
) -> Iterator[Batch]:
    """Write the files dest.LANG, from source.LANG by `step`; yield each batch when written."""
    inputs = [read_lines(f"{source}.{lang}") for lang in langs]
    pairs = zip(*inputs, strict=True)
    batches = iter(lambda: list(islice(pairs, BATCH_LINES)), [])
    with contextlib.ExitStack() as stack:
        outputs = [stack.enter_context(open(f"{dest}.{lang}", "wb")) for lang in langs]
        for batch in in_order(workers, step, batches):
            for side, output in enumerate(outputs):
                output.write("".join(f"{pair[side]}\n" for pair in batch.pairs).encode())
            yield batch


def in_order(
    workers: Workers, step: Callable[[Pairs], Batch], batches: Iterator[Pairs]
) -> Iterator[Batch]:
    """Yield the results in order; unlike pool.map, read only a little ahead."""
    pending: deque[Future[Batch]] = deque()
    for batch in batches:
        pending.append(workers.pool.submit(step, batch))
        if len(pending) > BATCHES_AHEAD * workers.processes:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def track(batches: Iterator[Batch], total: int, what: str) -> Iterator[Batch]:
    """Yield the batches and show how far they are: a bar, or some lines off the terminal."""
    plain = not sys.stderr.isatty()
    done = 0
    with tqdm(total=total, desc=what, unit=" lines", disable=plain) as bar:
        for batch in batches:
            yield batch
            before, done = done, done + batch.read
            bar.update(batch.read)
            if plain and done * 10 // total > before * 10 // total:
                say(f"{what}: {done:,} of {total:,} lines")
