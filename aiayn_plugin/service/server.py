"""The server: an address, and a stop that answers first what has been asked."""

import logging
import signal
import socket

import uvicorn
from starlette.types import ASGIApp

from ..errors import InputError

#: Seconds for the answers that are under way when the service is stopped.
FAREWELL = 30
#: Connections at once; a browser or a program has a few.
CONNECTIONS = 1000
#: The names of this computer, for itself; and the addresses that stand for all that it has.
LOCAL = ("localhost", "127.0.0.1", "[::1]")
ANY = ("0.0.0.0", "::")


def listen(host: str, port: int) -> socket.socket:
    """Return a socket at an address; port 0 is any free one. Raises InputError if it has none."""
    if not 0 <= port < 2**16:
        raise InputError(f"--port {port} must be from 0 to {2**16 - 1}")
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()  # from now on nobody else can, and a client waits
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(
            f"nothing can listen at {host}, port {port}: {why}; give another --host or --port"
        ) from None
    return listening


def address(listening: socket.socket) -> str:
    """Return the address of a socket, for a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def names(host: str, listening: socket.socket, others: list[str]) -> list[str] | None:
    """Return the names by which a service may be called; None: any.

    host: as it was typed; the socket may have a number in its place.
    """
    number = listening.getsockname()[0]
    if number in ANY and not others:
        return None
    own = [f"[{name}]" if ":" in name else name for name in (host, number)]
    return [name.lower() for name in (*LOCAL, *own, *others)]


def serve(app: ASGIApp, listening: socket.socket) -> None:
    """Answer until Ctrl-C or SIGTERM; then answer what is under way, and return."""
    # uvicorn raises the signal once more when it has stopped: then it has done its work.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        lifespan="on",
        ws="none",
        http="h11",
        limit_concurrency=CONNECTIONS,
        server_header=False,
        timeout_graceful_shutdown=FAREWELL,
    )
    uvicorn.Server(config).run(sockets=[listening])
