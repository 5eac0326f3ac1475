"""Running a command, and its steps over parallel files: on all cores, in order, and in bounded
memory."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from aiayn_plugin.errors import TextError
from aiayn_plugin.lines import without_ends

BATCH_LINES = 2000
BATCHES_AHEAD = 4  # for each worker, so that the text in memory stays bounded

Langs = tuple[str, str]
Pairs = list[tuple[bytes, bytes]]


class Workers(NamedTuple):
    """A pool of processes, and how many they are."""

    pool: ProcessPoolExecutor
    processes: int


class Batch(NamedTuple):
    """Both sides of some line pairs after a step, and what the step counted."""

    sides: tuple[bytes, bytes]
    read: int
    dropped: Counter[str]
    words: Counter[str]


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
    workers: Workers, step: Callable[[Pairs], Batch], sources: list[list[Path]], dests: list[Path]
) -> Iterator[Batch]:
    """Write a file for each language by `step`; yield each batch when written.

    `sources` has a file for each language, once or several times; what they give is joined.

    Raises:
        TextError: files of the two languages have unequal numbers of lines.
    """
    with contextlib.ExitStack() as stack:
        opened = [[stack.enter_context(open(file, "rb")) for file in files] for files in sources]
        pairs = (pair for files in opened for pair in _in_step(files))
        batches = iter(lambda: list(islice(pairs, BATCH_LINES)), [])
        outputs = [stack.enter_context(open(dest, "wb")) for dest in dests]
        for batch in in_order(workers, step, batches):
            for output, side in zip(outputs, batch.sides, strict=True):
                output.write(side)
            yield batch


def _in_step(files: Sequence[Iterable[bytes]]) -> Iterator[tuple[bytes, bytes]]:
    sides = zip_longest(*map(without_ends, files))
    for number, (source, target) in enumerate(sides, start=1):
        if source is None or target is None:
            raise TextError(f"one of two parallel files ends before line {number}: was it changed?")
        yield source, target


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


def run_command(name: str, work: Callable[[], None], interrupted: str) -> int:
    """Do the work of a command; return its exit status, after one line about what went wrong."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that a kill cleans up too
    status = 1
    try:
        work()
        return 0
    except (TextError, OSError) as error:
        message = str(error)
    except BrokenProcessPool:
        message = "a worker process was killed, perhaps for want of memory; try fewer --workers"
    except KeyboardInterrupt:
        message, status = f"interrupted; {interrupted}", 130
    say(f"{name}: error: {message}")
    return status
