"""Concurrent requests share a batch."""

import asyncio
import threading

import pytest

from aiayn_plugin.service.batcher import BatchAbandoned, Batcher, QueueFull

#: A kind whose batches hold one item; those of other kinds hold four.
SINGLE = 3


class Upper:
    """Converts each batch to upper case once it is released, unless it is abandoned."""

    def __init__(self) -> None:
        self.batches: list[tuple[list[str], int]] = []
        self.release = threading.Event()
        self.stop_if_abandoned = lambda: None
        self.abandoned = 0

    def __call__(self, items: list[str], kind: int) -> list[str]:
        self.batches.append((items, kind))
        try:
            while not self.release.wait(0.01):
                self.stop_if_abandoned()
        except BatchAbandoned:
            self.abandoned += 1
            raise
        if "bad" in items:
            raise ValueError("bad")
        return [item.upper() for item in items]


def with_batcher(scenario, max_queued=10):
    """Run `scenario(batcher, upper, start, running)`; `start` submits items and returns a task."""

    async def main():
        upper = Upper()
        batcher = Batcher(upper, max_queued, lambda kind: 1 if kind == SINGLE else 4)
        upper.stop_if_abandoned = batcher.stop_if_abandoned
        running = asyncio.ensure_future(batcher.run())

        async def start(items, kind=1):
            task = asyncio.ensure_future(batcher.submit(list(items), kind))
            await asyncio.sleep(0.05)  # until it is queued or processed
            return task

        try:
            await asyncio.wait_for(scenario(batcher, upper, start, running), 30)
        finally:
            upper.release.set()
            running.cancel()

    asyncio.run(main())


def test_requests_that_arrive_during_a_batch_form_the_next_one():
    async def scenario(batcher, upper, start, running):
        requests = [await start(["a"]), await start("bc"), await start("d"), await start("ef")]
        assert batcher.queued == 5
        upper.release.set()
        assert await asyncio.gather(*requests) == [["A"], ["B", "C"], ["D"], ["E", "F"]]
        assert upper.batches == [(["a"], 1), (["b", "c", "d", "e"], 1), (["f"], 1)]
        assert batcher.queued == 0

    with_batcher(scenario)


def test_a_batch_holds_one_kind_up_to_its_own_size():
    async def scenario(batcher, upper, start, running):
        requests = [await start("a"), await start("bc", SINGLE), await start("d"), await start("e")]
        upper.release.set()
        assert await asyncio.gather(*requests) == [["A"], ["B", "C"], ["D"], ["E"]]
        assert upper.batches == [(["a"], 1), (["b"], SINGLE), (["c"], SINGLE), (["d", "e"], 1)]

    with_batcher(scenario)


def test_a_request_that_exceeds_the_queue_is_rejected_at_once():
    async def scenario(batcher, upper, start, running):
        first, second = await start("a"), await start("bc")
        with pytest.raises(QueueFull, match="2 of at most 3 sentences are waiting; try again"):
            await batcher.submit(["d", "e"], 1)
        third = await start("d")
        upper.release.set()
        assert await asyncio.gather(first, second, third) == [["A"], ["B", "C"], ["D"]]

    with_batcher(scenario, max_queued=3)


def test_a_disconnect_drops_only_the_sentences_of_its_client():
    """From the queue and from the current batch."""

    async def scenario(batcher, upper, start, running):
        first = await start("a")
        leaving, staying = await start("bc"), await start("d")
        leaving.cancel()
        await asyncio.sleep(0.05)
        assert batcher.queued == 1
        upper.release.set()
        assert await asyncio.gather(first, staying) == [["A"], ["D"]]
        assert upper.batches == [(["a"], 1), (["d"], 1)]

        upper.release.clear()
        first = await start("a")
        leaving, staying = await start("b"), await start("c")
        first.cancel()
        while len(upper.batches) < 4:  # until "b" and "c" form the current batch
            await asyncio.sleep(0.01)
        leaving.cancel()
        await asyncio.sleep(0.1)
        upper.release.set()
        assert await asyncio.wait_for(staying, 5) == ["C"]
        assert upper.batches[2:] == [(["a"], 1), (["b", "c"], 1)]

    with_batcher(scenario)


def test_a_bad_item_fails_alone():
    async def scenario(batcher, upper, start, running):
        requests = [await start(["a"]), await start(["b"]), await start(["bad"]), await start("c")]
        upper.release.set()
        results = await asyncio.gather(*requests, return_exceptions=True)
        assert results[:2] == [["A"], ["B"]] and results[3] == ["C"]
        assert isinstance(results[2], ValueError)
        assert await (await start("d")) == ["D"]

    with_batcher(scenario)


@pytest.mark.parametrize("shutdown", [False, True])
def test_an_abandoned_batch_is_stopped(shutdown):
    """All of its clients have disconnected, or the service shuts down."""

    async def scenario(batcher, upper, start, running):
        request = await start("ab")
        if shutdown:
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await request
        else:
            request.cancel()
            while not upper.abandoned:
                await asyncio.sleep(0.01)
            upper.release.set()
            assert await batcher.submit(["c"], 1) == ["C"]
            running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert upper.abandoned == 1

    with_batcher(scenario)
