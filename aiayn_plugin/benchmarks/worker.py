"""A worker process that holds one training run or search between measurements."""

import logging
import multiprocessing
import os
import re
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from ..corpus.parallel import exit_with_parent
from ..errors import InputError

#: The path from which the plugin was imported: fairseq refuses a different one, such as the target
#: of a symbolic link.
PLUGIN = Path(__file__).parent.parent


class Worker:
    """A process that builds one object from a fairseq command line, and calls its methods."""

    def __init__(self, build: Callable[[list[str]], Any], argv: list[str], log: Path) -> None:
        """argv: the arguments of the command; log: the file for the process's output."""
        self.argv, self.log = argv, log
        # The process imports fairseq before it can filter what torch warns about there.
        os.environ.setdefault("PYTHONWARNINGS", "ignore:`torch.jit.script`:FutureWarning")
        context = multiprocessing.get_context("spawn")
        self._executor = ProcessPoolExecutor(1, context, _start, (build, argv, log))

    def call(self, method: Callable[..., Any], *args: Any) -> Any:
        """Call a method of the object and return its result. Raises InputError if it fails."""
        try:
            return self._executor.submit(_call, method, args).result()
        except BrokenProcessPool:
            output = self.log.read_text(encoding="utf-8")
        except Exception as error:  # whatever the command may raise, such as out-of-memory errors
            output = str(error)
        lines = output.strip().splitlines() or ["no output"]
        # "no data" for "aiayn: error: no data" and for "ValueError: no data"
        reason = re.sub(r"^[\w.-]+: (error: )?", "", lines[-1])
        raise InputError(f"measuring {' '.join(self.argv)} failed: {reason}")

    def close(self) -> None:
        """End the process."""
        self._executor.shutdown()


_instance: Any = None  # of the worker process


def _start(build: Callable[[list[str]], Any], argv: list[str], log: Path) -> None:
    global _instance
    # Ctrl-C ends a measurement at once; fairseq-train would complete its update.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    exit_with_parent()
    sys.stdout = sys.stderr = open(log, "w", encoding="utf-8", buffering=1)  # noqa: SIM115
    logging.basicConfig(stream=sys.stderr, force=True)  # replaces the handlers that fairseq added
    _instance = build(argv)


def _call(method: Callable[..., Any], args: tuple) -> Any:
    return method(_instance, *args)
