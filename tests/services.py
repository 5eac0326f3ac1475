"""`aiayn serve` as a user starts it, and a client that waits for its answers."""

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


class Server:
    """A running service: its address, its process and its log."""

    def __init__(self, process: subprocess.Popen, log: Path) -> None:
        self.process, self.path = process, log
        end, found = after(120), None
        while found is None:
            assert process.poll() is None and not end(), self.log
            found = re.search(r"answers at (http://\S+);", self.log)
        self.address = found[1]

    @property
    def log(self) -> str:
        """What it has said so far."""
        return self.path.read_text(encoding="utf-8")

    @property
    def memory(self) -> float:
        """Its resident memory in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1e3

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection of a client's own."""
        return http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=120)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Return the status and the answer to one request; what is no bytes is sent as JSON."""
        connection = self.connect()
        try:
            data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            kind = {"Content-Type": "application/json"} if body is not None else {}
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, data, {**kind, **named})
            answer = connection.getresponse()
            text = answer.read().decode()
            of_json = answer.getheader("content-type") == "application/json"
            return answer.status, json.loads(text) if of_json else text
        finally:
            connection.close()

    def translate(self, text: Any, **more: Any) -> tuple[int, Any]:
        """Return the status and the answer to one POST /translate."""
        return self.send("POST", "/translate", {"text": text, **more})

    def stop(self, by: int = signal.SIGTERM) -> int:
        """Stop it, and return its exit status."""
        self.process.send_signal(by)
        return self.process.wait(60)


@contextlib.contextmanager
def serving(model: Path, folder: Path, *options: str) -> Iterator[Server]:
    """Serve a model at a free port, with its log in `folder`."""
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
