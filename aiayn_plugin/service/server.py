"""The server: a listening socket, and a graceful shutdown."""

import logging
import signal
import socket

import uvicorn
from starlette.types import ASGIApp

from ..errors import InputError

#: Seconds for requests in flight when the service is stopped.
SHUTDOWN_TIMEOUT = 30
MAX_CONNECTIONS = 1000
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
#: The addresses that stand for all interfaces.
ANY_ADDRESS = ("0.0.0.0", "::")


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 selects a free port. Raises InputError if it fails."""
    if not 0 <= port < 2**16:
        raise InputError(f"--port {port} must be from 0 to {2**16 - 1}")
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()  # reserves the port; connections queue until the server accepts them
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"cannot listen on {host}, port {port}: {reason}; give another --host or --port"
        ) from None
    return listening


def base_url(listening: socket.socket) -> str:
    """Return the URL of a listening socket, for a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def allowed_hosts(host: str, listening: socket.socket, extra: list[str]) -> list[str] | None:
    """Return the Host headers that a service accepts; None: any.

    host: as given on the command line; the socket's address may be its resolved form.
    """
    address = listening.getsockname()[0]
    if address in ANY_ADDRESS and not extra:
        return None
    own = [f"[{name}]" if ":" in name else name for name in (host, address)]
    return [name.lower() for name in (*LOCAL_HOSTS, *own, *extra)]


def serve(app: ASGIApp, listening: socket.socket) -> None:
    """Serve until Ctrl-C or SIGTERM; then complete the requests in flight, and return."""
    # uvicorn raises the signal again after its shutdown, for the handler that it found.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        lifespan="on",
        ws="none",
        http="h11",
        limit_concurrency=MAX_CONNECTIONS,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT,
    )
    uvicorn.Server(config).run(sockets=[listening])
