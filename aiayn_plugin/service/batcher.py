"""Requests that wait at the same time are answered together."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..errors import InputError

Given = TypeVar("Given")
Found = TypeVar("Found")


class Busy(InputError):
    """Too much is waiting already."""


class Unwanted(Exception):
    """Nobody waits for the answers that are being computed."""


@dataclass(eq=False)
class _Waiting(Generic[Given, Found]):
    """One thing that is asked, and where its answer goes. Only equal kinds go together."""

    given: Given
    kind: int
    answer: asyncio.Future


class Together(Generic[Given, Found]):
    """Asks `answer` for all that waits, up to `most_together` at once, in a thread of its own.

    What arrives while it computes waits for the next turn. For example, a first sentence is
    answered alone; if 9 others come meanwhile, these 9 are answered together. `answer` may call
    `check_wanted` while it computes, to stop where nobody waits any more.
    """

    def __init__(
        self,
        answer: Callable[[list[Given], int], Sequence[Found]],
        most_waiting: int,
        most_together: Callable[[int], int],
    ) -> None:
        """answer: gets things of one kind, and the kind; returns what it found for each.

        most_together: says of a kind how many go together.
        """
        self._answer = answer
        self.most_waiting, self.most_together = most_waiting, most_together
        self._queue: list[_Waiting[Given, Found]] = []
        self._came = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "translating")
        self._turn: list[_Waiting[Given, Found]] = []

    @property
    def waiting(self) -> int:
        """How many things wait, without those that are being answered."""
        return len(self._queue)

    def check(self, count: int) -> None:
        """Raise Busy if there is no room for so many more."""
        if self.waiting + count > self.most_waiting:
            raise Busy(
                f"{self.waiting:,} sentences are waiting, and {self.most_waiting:,} may: "
                "try again in a moment"
            )

    async def ask(self, given: Sequence[Given], kind: int) -> list[Found]:
        """Return what is found for each, in their order. Raises Busy at once if there is no room.

        If the caller is cancelled, what it asked for leaves the queue.
        """
        self.check(len(given))
        loop = asyncio.get_running_loop()
        asked = [_Waiting[Given, Found](one, kind, loop.create_future()) for one in given]
        self._queue += asked
        self._came.set()
        try:
            return await asyncio.gather(*(one.answer for one in asked))
        finally:
            gone = {id(one) for one in asked}
            self._queue = [one for one in self._queue if id(one) not in gone]

    def check_wanted(self, *_: object) -> None:
        """Raise Unwanted if nobody waits for what is being answered. Called in its thread."""
        if all(one.answer.done() for one in self._turn):
            raise Unwanted

    async def run(self) -> None:
        """Answer what is asked for, until this is cancelled."""
        try:
            while True:
                await self._came.wait()
                while turn := self._next():
                    await self._take(turn)
                self._came.clear()
        finally:
            self._thread.shutdown(cancel_futures=True)

    def _next(self) -> list[_Waiting[Given, Found]]:
        """Take the next ones of the first one's kind from the queue."""
        same = [one for one in self._queue if one.kind == self._queue[0].kind]
        turn = same[: self.most_together(self._queue[0].kind)] if same else []
        taken = {id(one) for one in turn}
        self._queue = [one for one in self._queue if id(one) not in taken]
        return turn

    async def _take(self, turn: list[_Waiting[Given, Found]]) -> None:
        """Answer some together. If that fails, each alone: one may be to blame for all."""
        given, self._turn = [one.given for one in turn], turn
        try:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(self._thread, self._answer, given, turn[0].kind)
            for one, of_one in zip(turn, found, strict=True):
                if not one.answer.done():
                    one.answer.set_result(of_one)
        except Unwanted:
            return
        except asyncio.CancelledError:
            for one in turn:
                one.answer.cancel()
            raise
        except Exception as error:
            if len(turn) > 1:
                for one in turn:
                    await self._take([one])
            elif not turn[0].answer.done():
                turn[0].answer.set_exception(error)
