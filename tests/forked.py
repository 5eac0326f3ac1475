"""A program that runs many commands of fairseq, and imports fairseq once.

It reads one JSON list from standard input, the words of a command, a line, and answers with one
JSON object: its exit status, and what it printed. `python tests/forked.py PLUGIN` has imported the
plugin as `--user-dir PLUGIN` does; without an argument it knows nothing of it.
"""

import argparse
import importlib
import json
import os
import signal
import sys
import tempfile
import time

#: Seconds that a command may take.
TIMEOUT = 120


def run(command: list[str]) -> dict:
    """Run a command in a child process, in an empty directory, and return how it ended."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if child == 0:
            os.setsid()
            os.chdir(folder)
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            end(command)
        status = wait(child)
        output.seek(0)
        return {"status": status, "output": output.read()}


def end(command: list[str]) -> None:
    """Be the command, in the child."""
    sys.argv = command
    status = 1
    try:
        name = command[0].removeprefix("fairseq-").replace("-", "_")
        importlib.import_module(f"fairseq_cli.{name}").cli_main()
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # as Python would
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def wait(child: int) -> int | None:
    """Return the exit status of a child, None if it took too long."""
    limit = time.monotonic() + TIMEOUT
    while time.monotonic() < limit:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            os.killpg(child, signal.SIGKILL) if group_lives(child) else None
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def group_lives(group: int) -> bool:
    """Whether a process that the command started is still there."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def main() -> None:
    """Answer each line."""
    import fairseq_cli.generate
    import fairseq_cli.interactive
    import fairseq_cli.preprocess
    import fairseq_cli.score
    import fairseq_cli.train
    import fairseq_cli.validate  # noqa: F401
    from fairseq import utils

    if sys.argv[1:]:
        utils.import_user_module(argparse.Namespace(user_dir=sys.argv[1]))
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
