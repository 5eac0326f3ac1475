"""Parallel steps keep the order of the lines, and cleaning keeps pairs exactly at its limits."""

import os
import random
import sys
import time

import pytest

from aiayn_plugin.corpus.parallel import BATCHES_AHEAD, map_pairs, start_workers
from aiayn_plugin.corpus.tokens import Cleaning
from aiayn_plugin.errors import InputError


def wait_and_return(pairs):
    """Return the pairs after a random time, so that batches are not finished in order."""
    time.sleep(random.random() / 100)
    return pairs


def write_pair(folder, source, target):
    """Write both sides; return the files."""
    files = folder / "text.en", folder / "text.de"
    for file, lines in zip(files, (source, target), strict=True):
        file.write_bytes(b"".join(line + b"\n" for line in lines))
    return files


@pytest.mark.parametrize("limit, value", [("BATCH_LINES", 3), ("BATCH_BYTES", 8)])
def test_results_are_in_the_order_of_the_lines(tmp_path, monkeypatch, limit, value):
    monkeypatch.setattr(f"aiayn_plugin.corpus.parallel.{limit}", value)
    source = [b"%d" % number for number in range(200)]
    target = [b"-%d" % number for number in range(200)]
    files = write_pair(tmp_path, source, target)
    with start_workers(2) as workers:
        batches = list(map_pairs(workers, wait_and_return, [files, files], 400, "waiting"))
    assert len(batches) > 10 * BATCHES_AHEAD * 2  # far more than are read ahead
    assert [pair for batch in batches for pair in batch] == list(zip(source, target)) * 2  # noqa: B905


def sleep(seconds, argument):
    time.sleep(seconds)


def test_an_interrupt_does_not_wait_for_the_tasks_that_have_begun():
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), start_workers(2) as workers:
        for _ in range(8):  # more than fits in the pipe to the workers
            workers.pool.submit(sleep, 60, bytes(500_000))
        time.sleep(0.2)  # until two have begun
        raise KeyboardInterrupt
    assert time.monotonic() - began < 30


def die():
    time.sleep(0.2)  # until the tasks fill the pipe
    os._exit(1)


def test_a_killed_worker_is_an_error_at_once():
    with (
        pytest.raises(InputError, match="a worker process was killed"),
        start_workers(2) as workers,
    ):
        workers.pool.submit(die)
        tasks = [workers.pool.submit(sleep, 60, bytes(500_000)) for _ in range(8)]
        tasks[-1].result()


#: Exits with status 3 while its workers start.
STARTING = """
import os, signal, sys, time
from aiayn_plugin.corpus.parallel import start_workers
signal.signal(signal.SIGTERM, signal.default_int_handler)  # as in `aiayn`
os.register_at_fork(after_in_child=lambda: [time.sleep(0.01) for _ in range(50)])
with start_workers(2) as workers:
    workers.pool.submit(time.sleep, 60)
    sys.exit(3)
"""


def test_workers_that_are_starting_end_too(run):
    assert run(sys.executable, "-c", STARTING, timeout=30).returncode == 3


def test_files_of_different_length_are_refused(tmp_path, monkeypatch):
    """The text is not read far ahead: the batches before the end come first."""
    monkeypatch.setattr("aiayn_plugin.corpus.parallel.BATCH_LINES", 3)
    files = write_pair(tmp_path, [b"a"] * 200, [b"a"] * 199)
    with start_workers(1) as workers:
        batches = map_pairs(workers, wait_and_return, [files], 200, "waiting")
        for _ in range(50):
            assert next(batches) == [(b"a", b"a")] * 3
        with pytest.raises(InputError, match="ends before line 200"):
            list(batches)


@pytest.mark.parametrize(
    ("source", "target", "flaw"),
    [
        (2, 3, None),  # exactly at the ratio of 1.5
        (3, 2, None),
        (4, 7, "too different in length"),
        (7, 4, "too different in length"),
        (10, 10, None),
        (10, 11, "too long"),
        (2, 2, None),
        (1, 1, "too short"),
        (0, 0, "empty"),
    ],
)
def test_pairs_at_the_limits_are_kept(source, target, flaw):
    cleaning = Cleaning(min_tokens=2, max_tokens=10, max_ratio=1.5)
    assert cleaning.find_flaw(source, target) == flaw
