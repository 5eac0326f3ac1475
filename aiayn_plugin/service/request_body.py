"""A client that is slow, sends too much, or leaves."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

from .schema import Refusal

Found = TypeVar("Found")

#: Seconds in which a body has to arrive.
ARRIVAL = 10


async def body_of(request: Request, most: int) -> bytes:
    """Return the body of a request of JSON.

    Raises Refusal if it says that it is something else, is larger than `most` bytes, or does not
    arrive.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # A browser sends this type to another's address only if that asks for it, and we do not.
        raise Refusal(415, "the body must be JSON, and say so: Content-Type: application/json")

    async def read() -> bytes:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > most:
                raise Refusal(413, f"the body has more than {most:,} bytes: send less at once")
        return bytes(body)

    try:
        return await asyncio.wait_for(read(), ARRIVAL)
    except asyncio.TimeoutError:
        raise Refusal(408, f"the body did not arrive within {ARRIVAL} s") from None
    except ClientDisconnect:
        raise Refusal(400, "the client left") from None


async def unless_gone(request: Request, answer: Coroutine[Any, Any, Found]) -> Found:
    """Return the answer to a request whose body has been read.

    Raises Refusal, and cancels what is computed, if the client leaves before, or if the service
    stops and has no more time for it.
    """
    answering = asyncio.ensure_future(answer)
    leaving = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            return answering.result()
        raise Refusal(400, "the client left")
    except asyncio.CancelledError:
        raise Refusal(503, "the service stops: ask again when it is back") from None
    finally:
        answering.cancel()
        leaving.cancel()


async def _gone(request: Request) -> None:
    """Return once the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
