"""Mends of how fairseq makes batches, and text of tokens."""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from fairseq.data.iterators import BackgroundConsumer


def keep_every_sentence(batch_options: dict) -> None:
    """Allow batches of any number of sentences.

    fairseq's are multiples of 8, and it drops the sentences left over: of 1,014 the last 6. Can go
    when fairseq keeps them.
    """
    batch_options["required_batch_size_multiple"] = 1


def keep_batches_of_first_epoch(batch_options: dict) -> None:
    """Cut the training set as in the first epoch, in whatever epoch a run goes on.

    batch_options: those of FairseqTask.get_batch_iterator. fairseq-fixed cuts it once, with a seed
    of the epoch in which the process starts. A run that was stopped in its third epoch would go on
    with other batches, and see some sentences twice in that epoch and others never. The order of
    the batches is of each epoch all the same. Can go when fairseq cuts with the seed alone, as
    0.12.2 does.
    """
    again = ("disable_iterator_cache", "update_epoch_batch_itr")  # cut anew for each epoch
    if not any(batch_options.get(option) for option in again):
        batch_options["epoch"] = 1


def of_numbers(string: Callable) -> Callable:
    """Return Dictionary.string for a sentence whose tokens are read all at once.

    fairseq looks at each token of a tensor four times, and each look waits for a GPU. Can go when
    fairseq reads them at once.
    """

    def string_of_numbers(dictionary: Any, tensor: Any, *args: Any, **kwargs: Any) -> str:
        if torch.is_tensor(tensor) and tensor.dim() == 1:
            tensor = tensor.tolist()
        return string(dictionary, tensor, *args, **kwargs)

    return string_of_numbers


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
