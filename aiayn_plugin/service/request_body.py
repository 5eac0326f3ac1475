"""Reading request bodies, and detecting clients that disconnect."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

#: Seconds within which a body must arrive.
BODY_TIMEOUT = 10
#: For a response that is sent before the whole body has been read.
CLOSE = {"Connection": "close"}


async def read_json_body(request: Request, max_bytes: int) -> bytes:
    """Return the body of a request.

    Raises HTTPException if it is not declared as JSON, exceeds `max_bytes` or does not arrive.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        # A browser sends this type to a different origin only with that origin's permission,
        # which the service never gives.
        message = "the body must be JSON: send Content-Type: application/json"
        raise HTTPException(415, message, CLOSE)

    async def read() -> bytes:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_bytes:
                message = f"the body exceeds {max_bytes:,} bytes: send fewer sentences at once"
                raise HTTPException(413, message, CLOSE)
        return bytes(body)

    try:
        return await asyncio.wait_for(read(), BODY_TIMEOUT)
    except asyncio.TimeoutError:
        message = f"the body did not arrive within {BODY_TIMEOUT} s"
        raise HTTPException(408, message, CLOSE) from None
    except ClientDisconnect:
        raise HTTPException(400, "the client disconnected") from None


async def until_disconnect(request: Request, answer: Coroutine[Any, Any, Any]) -> Any:
    """Return the answer to a request whose body has been read.

    If the client disconnects or the service shuts down first, cancels it and raises HTTPException.
    """
    answering = asyncio.ensure_future(answer)
    disconnecting = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait({answering, disconnecting}, return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            return answering.result()
        raise HTTPException(400, "the client disconnected")
    except asyncio.CancelledError:
        raise HTTPException(503, "the service is shutting down: try again later") from None
    finally:
        answering.cancel()
        disconnecting.cancel()


async def _disconnect(request: Request) -> None:
    """Return once the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
