"""Mends of how fairseq makes batches."""

import queue
import threading
import time

from fairseq.data.iterators import BackgroundConsumer


def keep_every_sentence(batch_options: dict) -> None:
    """Allow batches of any number of sentences.

    fairseq's are multiples of 8, and it drops the sentences left over: of 1,014 the last 6. Can go
    when fairseq keeps them.
    """
    batch_options["required_batch_size_multiple"] = 1


def finish_data_threads(timeout: float = 10.0) -> None:
    """Let the threads that prepare batches end before Python does, within timeout seconds.

    fairseq leaves them running when a training stops inside an epoch. If one is making a batch when
    Python ends, the process aborts ("terminate called without an active exception") after all its
    work is saved. Can go when fairseq stops its threads itself.
    """
    end = time.monotonic() + timeout
    for thread in threading.enumerate():
        if isinstance(thread, BackgroundConsumer):
            thread._max_len = 0  # its present batch is its last
            while thread.is_alive() and time.monotonic() < end:
                try:
                    thread._queue.get(timeout=0.05)
                except queue.Empty:
                    pass
