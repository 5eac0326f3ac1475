"""Commands in a fork of this process, which has imported what they need: a start takes no time."""

import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import CompletedProcess


def forked(
    work: Callable[[], object], folder: Path, stdin: str = "", seconds: float = 120
) -> CompletedProcess[str]:
    """Call a function in a fork of this process, in a directory, and return how it ended.

    The status is negative for a signal, and the one of SIGKILL if it took too long.
    """
    with ExitStack() as stack:
        files = [
            stack.enter_context(tempfile.TemporaryFile("w+", errors="replace"))
            for _ in ("stdin", "stdout", "stderr")
        ]
        files[0].write(stdin)
        files[0].seek(0)
        child = os.fork()
        if child == 0:
            os.setsid()
            os.chdir(folder)
            for number, file in enumerate(files):
                os.dup2(file.fileno(), number)
            sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)
            # As fairseq's commands do when they are imported. The handlers here are pytest's, or
            # write to where this process began.
            logging.disable(logging.NOTSET)
            for logger in logging.root.manager.loggerDict.values():
                if isinstance(logger, logging.Logger):
                    logger.disabled = False  # Hydra disables loggers
            logging.basicConfig(
                stream=sys.stdout,
                level="INFO",
                force=True,
                format="%(levelname)s | %(name)s | %(message)s",
            )
            _end(work)
        status = _wait(child, seconds)
        for file in files[1:]:
            file.seek(0)
        return CompletedProcess([], status, files[1].read(), files[2].read())


def _end(work: Callable[[], object]) -> None:
    """Call the function, and end as Python would."""
    status = 1
    try:
        work()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(child: int, seconds: float) -> int:
    """Return the exit status of a child; end what takes too long, and what it has started."""
    limit = time.monotonic() + seconds
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < limit:
        time.sleep(0.02)
    _kill_group(child)
    return os.waitstatus_to_exitcode(ended[1] if ended[0] else os.waitpid(child, 0)[1])


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def command(main: Callable[[], object], *argv: object) -> Callable[[], object]:
    """Return a function that runs a command as if argv was typed."""

    def work() -> None:
        from aiayn_plugin.fairseq_plugin.patches.errors import show_one_line

        # this process may have imported the plugin before fairseq's commands
        sys.excepthook = show_one_line(sys.excepthook)
        sys.argv = [str(word) for word in argv]
        os.environ["HYDRA_FULL_ERROR"] = "1"  # hydra leaves the exception to Python
        main()

    return work
