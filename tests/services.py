"""`aiayn serve` as a process, and a client for it."""

import contextlib
import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from commands import after

#: The search of the fixture `service`, which differs from the default.
SEARCH = {"beam": 5, "lenpen": 0.0}


class Server:
    """A running service: its URL, its process and its log."""

    def __init__(self, process: subprocess.Popen, log: Path) -> None:
        self.process, self.path = process, log
        timed_out, started = after(120), None
        while started is None:
            assert process.poll() is None and not timed_out(), self.log
            started = re.search(r"listens on (http://\S+);", self.log)
        self.url = started[1]
        self.address = ("127.0.0.1", urlsplit(self.url).port)

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self.path.read_text(encoding="utf-8")

    @property
    def memory(self) -> float:
        """Its resident memory in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1e3

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Return the status and the content of a response; a body that is not bytes becomes JSON.

        Underscores in the names of headers stand for hyphens.
        """
        with contextlib.closing(
            http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=120)
        ) as connection:
            data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            content_type = {"Content-Type": "application/json"} if body is not None else {}
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, data, {**content_type, **named})
            response = connection.getresponse()
            text = response.read().decode()
            is_json = response.getheader("content-type") == "application/json"
            return response.status, json.loads(text) if is_json else text

    def translate(self, text: Any, **fields: Any) -> tuple[int, Any]:
        """Return the status and the content of the response to POST /translate."""
        return self.send("POST", "/translate", {"text": text, **fields})

    def queued(self) -> int:
        """Return the number of sentences in its queue."""
        return self.send("GET", "/health")[1]["queued"]

    def stop(self, by: int = signal.SIGTERM) -> int:
        """Stop it, and return its exit status."""
        self.process.send_signal(by)
        return self.process.wait(60)


@contextlib.contextmanager
def serving(model: Path | str, folder: Path, *options: str) -> Iterator[Server]:
    """Serve a model on a free port, with its log in `folder`."""
    command = [Path(sys.executable).with_name("aiayn"), "serve", model, "--port", "0", *options]
    log = folder / "serve.log"
    with (
        open(log, "w") as file,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file) as process,
    ):
        try:
            yield Server(process, log)
        finally:
            if process.poll() is None:
                process.kill()
