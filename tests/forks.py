"""Commands of fairseq and the plugin in a fork of this process: a start takes no seconds."""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Result(NamedTuple):
    """The exit status of a fork (negative: the signal that ended it), and what it printed."""

    status: int
    output: str


def forked(work: Callable[[], object], log: Path, seconds: int = 120) -> Result:
    """Call a function in a fork of this process, in the directory of its log."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(seconds)
            with open(log, "w") as output:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
            os.close(0)
            os.open(os.devnull, os.O_RDONLY)
            os.chdir(log.parent)
            sys.stdin, sys.stdout = open(0), open(1, "w", closefd=False)
            sys.stderr = open(2, "w", closefd=False, buffering=1)
            status = _status(work)
            sys.stdout.flush()
        finally:
            os._exit(status)
    _, code = os.waitpid(child, 0)
    return Result(os.waitstatus_to_exitcode(code), log.read_text(errors="replace"))


def _status(work: Callable[[], object]) -> int:
    """Return the exit status that Python would end with."""
    try:
        work()
    except SystemExit as end:
        if isinstance(end.code, (int, type(None))):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        from aiayn_plugin.boundary.mends.errors import input_error

        message = input_error(error)
        if message is None:
            traceback.print_exc()
        else:
            print(f"{Path(sys.argv[0]).name}: error: {message}", file=sys.stderr)
        return 1
    return 0


def command(main: Callable[[], object], *argv: object) -> Callable[[], object]:
    """Return a function that runs a command as if argv was typed."""
    def work() -> None:
        sys.argv = [str(word) for word in argv]
        os.environ["HYDRA_FULL_ERROR"] = "1"  # hydra leaves the exception to Python
        main()
    return work  # fmt: skip
