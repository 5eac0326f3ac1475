"""A program that imports libraries once and runs commands in forks of itself.

    python tests/command_server.py MODULE ...

Starting fairseq takes seconds, forking a process that has imported it takes milliseconds. Each line
of standard input is a JSON object with the "command" (a console script and its arguments), the
working directory "cwd", the files "stdin", "stdout" and "stderr", and a "timeout" in seconds or
null. The answer is one line with the exit status, or null if the command was killed after its
timeout.
"""

import gc
import importlib
import importlib.metadata
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path


def main() -> None:
    """Answer requests until standard input ends; in a fork, run the command and exit like it."""
    sys.path[0] = str(Path(sys.executable).parent)  # as for a console script
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # modules may print
    for module in sys.argv[1:]:
        importlib.import_module(module)
    gc.freeze()  # the pages of these objects are never copied by a collection in a fork
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            sys.exit(run(request))
        print(json.dumps(wait(child, request["timeout"])), file=answers, flush=True)


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
