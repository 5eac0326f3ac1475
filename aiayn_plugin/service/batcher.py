"""Dynamic batching: concurrent requests share a batch."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ..errors import InputError


class QueueFull(InputError):
    """The queue has no capacity left for a request."""


class BatchAbandoned(Exception):
    """Every client of the current batch has disconnected."""


@dataclass(eq=False)
class _Entry:
    """A queued item and the future of its result. A batch holds entries of one kind."""

    item: str
    kind: int
    result: asyncio.Future[Any]


class Batcher:
    """Runs `process` on batches of queued items, in a worker thread.

    Items that arrive during a batch form the next one. For example, a first sentence is processed
    alone; if 9 sentences arrive in the meantime, they are processed together.
    """

    def __init__(
        self,
        process: Callable[[list[str], int], Sequence[Any]],
        max_queued: int,
        batch_size: Callable[[int], int],
    ) -> None:
        """Prepare an empty queue; `run` processes it.

        process: maps items of one kind, and the kind, to their results. It may call
        `stop_if_abandoned` periodically. batch_size: maps a kind to its largest batch.
        """
        self._process = process
        self._max_queued, self._batch_size = max_queued, batch_size
        self._queue: list[_Entry] = []
        self._batch: list[_Entry] = []
        self._arrival = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "batcher")

    @property
    def queued(self) -> int:
        """The number of items that wait for a batch."""
        return len(self._queue)

    async def submit(self, items: Sequence[str], kind: int) -> list[Any]:
        """Return the results of the items, in order.

        Raises QueueFull at once if they exceed the queue's capacity. If the caller is cancelled,
        they are dequeued.
        """
        if self.queued + len(items) > self._max_queued:
            raise QueueFull(
                f"the queue is full: {self.queued:,} of at most {self._max_queued:,} sentences "
                "are waiting; try again in a moment"
            )
        loop = asyncio.get_running_loop()
        entries = [_Entry(item, kind, loop.create_future()) for item in items]
        self._queue += entries
        self._arrival.set()
        try:
            return await asyncio.gather(*(entry.result for entry in entries))
        finally:
            for entry in entries:
                entry.result.cancel()  # no effect on a result that has arrived
            self._queue = [entry for entry in self._queue if not entry.result.done()]

    def stop_if_abandoned(self, *_: object) -> None:
        """Raise BatchAbandoned if no client waits for the current batch. Called by `process`."""
        if all(entry.result.done() for entry in self._batch):
            raise BatchAbandoned

    async def run(self) -> None:
        """Process batches until cancelled."""
        try:
            while True:
                await self._arrival.wait()
                self._arrival.clear()
                while self._queue:
                    await self._run_batch(self._next_batch())
        finally:
            self._thread.shutdown(cancel_futures=True)

    def _next_batch(self) -> list[_Entry]:
        """Remove from the queue the first entries of the same kind as the oldest one."""
        kind = self._queue[0].kind
        batch = [entry for entry in self._queue if entry.kind == kind][: self._batch_size(kind)]
        selected = set(batch)
        self._queue = [entry for entry in self._queue if entry not in selected]
        return batch

    async def _run_batch(self, batch: list[_Entry]) -> None:
        """Process a batch; if it fails, each item alone, so that only a bad one fails."""
        self._batch = batch
        items = [entry.item for entry in batch]
        try:
            loop = asyncio.get_running_loop()
            results = await loop.run_in_executor(self._thread, self._process, items, batch[0].kind)
            for entry, result in zip(batch, results, strict=True):
                if not entry.result.done():
                    entry.result.set_result(result)
        except BatchAbandoned:
            return
        except asyncio.CancelledError:
            for entry in batch:
                entry.result.cancel()
            raise
        except Exception as error:
            if len(batch) > 1:
                for entry in batch:
                    if not entry.result.done():  # its client is still connected
                        await self._run_batch([entry])
            elif not batch[0].result.done():
                batch[0].result.set_exception(error)
