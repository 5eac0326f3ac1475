"""The server: a listening socket, and a graceful shutdown."""

import asyncio
import logging
import signal
import socket

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..errors import InputError

#: Seconds for requests in flight when the service is stopped.
SHUTDOWN_TIMEOUT = 30
#: Seconds for a client to send a request, or to read a part of the response; longer than
#: BODY_TIMEOUT, which ends with a response.
REQUEST_TIMEOUT = 15
MAX_CONNECTIONS = 1000
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
#: The wildcard addresses: all interfaces.
ANY_ADDRESS = ("0.0.0.0", "::")


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 selects a free port. Raises InputError if it fails."""
    if not 0 <= port < 2**16:
        raise InputError(f"--port {port} must be from 0 to {2**16 - 1}")
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()  # reserves the port; connections queue until the server accepts them
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"cannot listen on {host}, port {port}: {reason}; give another --host or --port"
        ) from None
    return listener


def base_url(listener: socket.socket) -> str:
    """Return the URL of a listening socket, for a browser."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def allowed_hosts(host: str, listener: socket.socket, extra: list[str]) -> list[str] | None:
    """Return the Host headers that a service accepts; None: any.

    host: as given on the command line; the socket's address may be its resolved form.
    """
    address = listener.getsockname()[0]
    if address in ANY_ADDRESS and not extra:
        return None
    return [*LOCAL_HOSTS, *(_host_name(name.lower()) for name in (host, address, *extra))]


def _host_name(name: str) -> str:
    """Return a host as in a Host header without its port: IPv6 addresses in brackets."""
    if name.count(":") > 1:
        return f"[{name.removeprefix('[').partition(']')[0]}]"
    return name.partition(":")[0]


class Connection(H11Protocol):
    """A uvicorn connection that ends unless its client sends a complete request in time.

    It also ends if the client stops reading. At MAX_CONNECTIONS a new connection evicts the least
    recently active one. Without these limits, which uvicorn lacks, stalled clients would block the
    service.
    """

    timer: asyncio.TimerHandle  #: runs while the client has to send or to read

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()
        if len(self.connections) >= MAX_CONNECTIONS:
            others = [c for c in self.connections if isinstance(c, Connection) and c is not self]
            waiting = [other for other in others if not other.timer.cancelled()]
            if waiting:
                longest = min(waiting, key=lambda other: other.timer.when())
                self.connections.discard(longest)  # otherwise counted until connection_lost
                longest.transport.abort()

    def handle_events(self) -> None:
        super().handle_events()
        self._stop_timer_during_response()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_timer_during_response()

    def on_response_complete(self) -> None:
        self.timer.cancel()
        self._start_timer()
        super().on_response_complete()  # may handle a request that has already arrived

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.timer.cancel()

    def _start_timer(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        self.timer = self.loop.call_later(REQUEST_TIMEOUT, self._time_out, unsent)

    def _stop_timer_during_response(self) -> None:
        answering = self.cycle and not (self.cycle.more_body or self.cycle.response_complete)
        if answering and not self.flow.write_paused:
            self.timer.cancel()

    def _time_out(self, unsent: int) -> None:
        """Abort the connection, unless its client has read some of the unsent bytes meanwhile."""
        if self.transport.get_write_buffer_size() in (0, unsent):
            self.transport.abort()
        else:
            self._start_timer()


def serve(app: ASGIApp, listener: socket.socket) -> None:
    """Serve until Ctrl-C or SIGTERM; then complete the requests in flight, and return."""
    # uvicorn raises the signal again after its shutdown, for the original handler.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        lifespan="on",
        ws="none",
        http=Connection,
        limit_concurrency=MAX_CONNECTIONS,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT,
    )
    uvicorn.Server(config).run(sockets=[listener])
