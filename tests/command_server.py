"""A program that imports libraries once and runs commands in forks of itself.

    python tests/command_server.py MODULE ...

Starting fairseq takes seconds; forking a process that has imported it takes milliseconds. Standard
input is a listening socket; the program ends when all its connections are closed. Each line of a
connection is a JSON object with the "command" (a console script and its arguments), the working
directory "cwd", the files "stdin", "stdout" and "stderr", and a "timeout" in seconds or null. The
answer is one line with the exit status and the peak memory in kB, or null if the command was killed
after its timeout.
"""

import atexit
import gc
import importlib
import importlib.metadata
import json
import logging
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import NoReturn


def main() -> None:
    """Serve each connection in a fork, until all connections are closed."""
    sys.path[0] = str(Path(sys.executable).parent)  # as for a console script
    listener = socket.socket(fileno=os.dup(0))
    listener.settimeout(0.2)
    os.dup2(2, 1)  # modules may print
    for module in sys.argv[1:]:
        importlib.import_module(module)
    gc.freeze()  # the pages of these objects are never copied by a collection in a fork
    atexit.register(gc.unfreeze)  # Triton prints objects that are not collected at exit
    while (connection := accept(listener)) is not None:
        with connection:
            if not os.fork():
                listener.close()
                serve(connection)


def accept(listener: socket.socket) -> socket.socket | None:
    """Return the next connection, or None once the forks of all earlier ones have ended."""
    while True:
        try:
            return listener.accept()[0]
        except TimeoutError:
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return None


def serve(connection: socket.socket) -> NoReturn:
    """Answer requests until the connection is closed; a fork runs the command and exits like it."""
    os.dup2(connection.fileno(), 0)  # replaces the listening socket
    with connection.makefile("rw") as stream:
        for line in stream:
            request = json.loads(line)
            child = os.fork()
            if not child:
                sys.exit(run(request))
            print(json.dumps(wait(child, request["timeout"])), file=stream, flush=True)
    os._exit(0)


def run(request: dict) -> object:
    """Return what the function of a console script returns."""
    os.setsid()
    os.chdir(request["cwd"])
    for number, name in enumerate((request["stdin"], request["stdout"], request["stderr"])):
        os.dup2(os.open(name, os.O_RDWR), number)
    sys.argv = request["command"]
    (script,) = importlib.metadata.entry_points(
        group="console_scripts", name=os.path.basename(sys.argv[0])
    )
    # The first to configure the root logger wins. fairseq_cli.train does so before it imports
    # fairseq, fairseq_cli.generate after; here fairseq was imported before both.
    handlers = logging.root.handlers[:]
    logging.root.handlers.clear()
    function = script.load()
    if not logging.root.handlers:
        logging.root.handlers[:] = handlers
    return function()


def wait(child: int, timeout: float | None) -> tuple[int, int] | None:
    """Return exit status and peak memory of a child; after the timeout kill it and its children."""
    end = time.monotonic() + (float("inf") if timeout is None else timeout)
    while True:
        ended, status, usage = os.wait4(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), usage.ru_maxrss
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.01)


if __name__ == "__main__":
    main()
