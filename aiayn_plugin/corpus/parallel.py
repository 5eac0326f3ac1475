"""Steps over two parallel files: on all cores, in the order of the lines, in bounded memory."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError
from ..text.lines import strip_line_ends
from .console import progress

BATCH_LINES, BATCH_BYTES = 2000, 8_000_000
#: Batches in memory per worker. Without a limit the whole text would be read ahead.
BATCHES_AHEAD = 4
#: The signals that end a command.
SIGNALS = {signal.SIGINT, signal.SIGTERM}

Langs = tuple[str, str]
Files = tuple[Path, Path]
LinePairs = list[tuple[bytes, bytes]]
Counts = Counter[str]


class Workers(NamedTuple):
    """A pool of processes, and their number."""

    pool: ProcessPoolExecutor
    processes: int


#: Converts the two lines of a pair, or returns why the pair is dropped.
Step = Callable[[bytes, bytes], tuple[str, str] | str]


class Batch(NamedTuple):
    """The result of a step on some line pairs.

    sides: the lines of the kept pairs, as bytes. counts: the count of each word, by side. dropped:
    the number of pairs dropped for each reason.
    """

    sides: list[bytes]
    counts: list[Counts]
    dropped: Counts


@contextlib.contextmanager
def start_workers(count: int) -> Iterator[Workers]:
    """Yield a pool of processes, which end when this process ends for any reason.

    Raises InputError if one of them is killed.
    """
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(count, context, initializer=_start_worker) as pool:
        try:
            # A signal that arrives during a fork may be lost, and the parent would wait forever for
            # a worker that missed SIGTERM. The first task starts all workers.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
            try:
                pool.submit(int)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            yield Workers(pool, count)
        except BaseException as error:  # do not wait for the tasks that have begun
            # Before 3.11.5 Python would wait for the tasks in the pipe, which no worker reads.
            pool._call_queue._reader.close()  # type: ignore[attr-defined]
            for worker in multiprocessing.active_children():
                worker.terminate()
            if isinstance(error, BrokenProcessPool):
                raise InputError(
                    "a worker process was killed, perhaps for lack of memory; use fewer --workers"
                ) from None
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _start_worker() -> None:
    """Leave interrupts to the parent, which cleans up, and exit when the parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    exit_with_parent()


def exit_with_parent() -> None:
    """Make this process, started by multiprocessing, exit as soon as its parent has ended."""
    parent = multiprocessing.parent_process()

    def wait_and_exit() -> None:
        if parent:
            parent.join()
        os._exit(1)

    threading.Thread(target=wait_and_exit, daemon=True).start()


def transform_batch(step: Step, pairs: LinePairs) -> Batch:
    """Apply the step to each pair, and return the kept lines and the counts."""
    results = [step(*pair) for pair in pairs]
    kept = [result for result in results if not isinstance(result, str)]
    sides = [[pair[side] for pair in kept] for side in (0, 1)]
    return Batch(
        ["".join(f"{line}\n" for line in side).encode() for side in sides],
        [Counts(word for line in side for word in line.split()) for side in sides],
        Counts(result for result in results if isinstance(result, str)),
    )


def map_pairs(
    workers: Workers,
    step: Callable[[LinePairs], Any],
    sources: Sequence[Files],
    total: int,
    activity: str,
) -> Iterator[Any]:
    """Yield the results of `step` on batches of line pairs, one source after the other.

    Progress shows `activity` and how many of `total` lines were read.

    Raises InputError if the two files of a source have different numbers of lines.
    """
    with contextlib.ExitStack() as stack:
        opened = [[stack.enter_context(open(file, "rb")) for file in files] for files in sources]
        pairs = (pair for files in opened for pair in _align(files))
        add = stack.enter_context(progress(activity, total, "lines"))
        # pool.map would read all batches at once.
        pending: deque[tuple[int, Future[Any]]] = deque()

        def take_first() -> Any:
            lines, future = pending.popleft()
            result = future.result()
            add(lines)
            return result

        for batch in _batches(pairs):
            pending.append((len(batch), workers.pool.submit(step, batch)))
            if len(pending) > BATCHES_AHEAD * workers.processes:
                yield take_first()
        while pending:
            yield take_first()


def _batches(pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[LinePairs]:
    """Yield the pairs in batches of BATCH_LINES, or of fewer that reach BATCH_BYTES."""
    batch, size = [], 0
    for pair in pairs:
        batch.append(pair)
        size += len(pair[0]) + len(pair[1])
        if len(batch) == BATCH_LINES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _align(files: Sequence[Iterable[bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the pairs of lines of two files. Raises InputError if one file ends first."""
    sides = zip_longest(*map(strip_line_ends, files))
    for number, (source, target) in enumerate(sides, start=1):
        if source is None or target is None:
            raise InputError(f"one of two parallel files has changed: it ends before line {number}")
        yield source, target
