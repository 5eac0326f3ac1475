"""What waits together is answered together."""

import asyncio
import threading

import pytest

from aiayn_plugin.service.batcher import Busy, Together, Unwanted


class Slow:
    """Answers with capitals, in turns that wait until they may go on."""

    def __init__(self) -> None:
        self.turns: list[tuple[list[str], int]] = []
        self.may_go = threading.Event()
        self.check, self.unwanted = lambda: None, 0

    def __call__(self, given: list[str], kind: int) -> list[str]:
        self.turns.append((given, kind))
        while not self.may_go.wait(0.01):
            self.check()
        if "bad" in given:
            raise ValueError("bad")
        return [one.upper() for one in given]


def within(test, most_waiting=10, most_together=4):
    """Run a test, which gets a Together, its Slow, and a function that starts a request."""

    async def whole():
        slow = Slow()
        together = Together(slow, most_waiting, lambda kind: 1 if kind == 3 else most_together)
        running = asyncio.ensure_future(together.run())

        async def start(given, kind=1):
            task = asyncio.ensure_future(together.ask(list(given), kind))
            await asyncio.sleep(0.05)  # until it waits, or is being answered
            return task

        try:
            await asyncio.wait_for(test(together, slow, start), 30)
        finally:
            slow.may_go.set()
            running.cancel()

    asyncio.run(whole())


def test_what_arrives_meanwhile_goes_together_and_each_gets_its_own():
    async def test(together, slow, start):
        requests = [await start(["a"]), await start("bc"), await start("d"), await start("ef")]
        assert together.waiting == 5
        slow.may_go.set()
        assert await asyncio.gather(*requests) == [["A"], ["B", "C"], ["D"], ["E", "F"]]
        assert slow.turns == [(["a"], 1), (["b", "c", "d", "e"], 1), (["f"], 1)]
        assert together.waiting == 0

    within(test)


def test_only_what_is_of_one_kind_goes_together():
    async def test(together, slow, start):
        requests = [await start("a"), await start("b", 2), await start("c", 1), await start("d", 2)]
        slow.may_go.set()
        assert await asyncio.gather(*requests) == [["A"], ["B"], ["C"], ["D"]]
        assert slow.turns == [(["a"], 1), (["b", "d"], 2), (["c"], 1)]

    within(test)


def test_a_kind_may_have_a_smaller_number():
    async def test(together, slow, start):
        requests = [await start("a"), await start("bc", 3), await start("de")]
        slow.may_go.set()
        assert await asyncio.gather(*requests) == [["A"], ["B", "C"], ["D", "E"]]
        assert slow.turns == [(["a"], 1), (["b"], 3), (["c"], 3), (["d", "e"], 1)]

    within(test)


def test_what_finds_no_room_is_refused_at_once():
    async def test(together, slow, start):
        first, second = await start("a"), await start("bc")
        with pytest.raises(Busy, match=r"2 sentences are waiting, and 3 may: try again in a mo"):
            await together.ask(["d", "e"], 1)
        third = await start("d")
        slow.may_go.set()
        assert await asyncio.gather(first, second, third) == [["A"], ["B", "C"], ["D"]]

    within(test, most_waiting=3)


def test_what_nobody_waits_for_leaves_the_queue():
    async def test(together, slow, start):
        first, second, third = await start("a"), await start("bc"), await start("d")
        second.cancel()
        first.cancel()  # which is being answered
        await asyncio.sleep(0.05)
        assert together.waiting == 1
        slow.may_go.set()
        assert await third == ["D"]
        assert slow.turns == [(["a"], 1), (["d"], 1)]

    within(test)


def test_one_that_fails_takes_no_other_with_it():
    async def test(together, slow, start):
        requests = [await start(["a"]), await start(["b"]), await start(["bad"]), await start("c")]
        slow.may_go.set()
        found = await asyncio.gather(*requests, return_exceptions=True)
        assert found[:2] == [["A"], ["B"]] and found[3] == ["C"]
        assert isinstance(found[2], ValueError)
        assert await (await start("d")) == ["D"], "it goes on"

    within(test)


@pytest.mark.parametrize("stops", [False, True])
def test_what_is_computed_for_nobody_is_not_computed_to_its_end(stops):
    """All of its clients have left, or the service stops."""

    async def whole():
        slow = Slow()
        together = Together(slow, 10, lambda kind: 4)

        def check():
            try:
                together.check_wanted()
            except Unwanted:
                slow.unwanted += 1
                raise

        slow.check = check
        running = asyncio.ensure_future(together.run())
        first, second = (asyncio.ensure_future(together.ask([one], 1)) for one in "ab")
        await asyncio.sleep(0.1)
        first.cancel()
        second.cancel()
        if stops:
            third = asyncio.ensure_future(together.ask(["c"], 1))
            await asyncio.sleep(0.1)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await third
        else:
            await asyncio.sleep(0.1)
            assert slow.unwanted == 1
            slow.may_go.set()
            assert await together.ask(["c"], 1) == ["C"]
            running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert slow.unwanted == 1 + stops

    asyncio.run(asyncio.wait_for(whole(), 5))
