"""Options that tests give to fairseq's commands, and functions that run or limit commands."""

import contextlib
import fcntl
import json
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

#: The plugin of this checkout; with its name alone fairseq may find the installed one.
PLUGIN = Path(__file__).resolve().parent.parent / "aiayn_plugin"
#: A small model of the plugin, on the CPU, with a log line for each update.
SMALL = (
    "--arch aiayn_tiny --N 1 --d-model 32 --d-ff 64 --cpu --num-workers 0 --log-format simple "
    "--log-interval 1"
).split()
#: Its training, as arguments of fairseq-train.
TRAIN = ["--user-dir", str(PLUGIN), *SMALL]
#: fairseq's own training, without a task and a model.
STOCK_TRAINING = (
    "--optimizer adam --lr-scheduler inverse_sqrt --criterion label_smoothed_cross_entropy "
    "--label-smoothing 0.1 --no-epoch-checkpoints --disable-validation --cpu --num-workers 0"
).split() + ["--adam-betas", "(0.9, 0.98)"]
#: The error of a command whose new directory exists.
DONE_BEFORE = "already exists: choose another output directory"
#: Raw text for a model of the corpus: one line is empty, and the first and the last are the same.
LINES = ["March 3", "", "Monday, May 1, 2023", "5 hours and 3 minutes", "March 3"]
#: What fairseq's commands and the plugin import, and what `aiayn` imports.
LIBRARIES = {
    # torch's optimizers import torch._dynamo
    "fairseq-": (
        "fairseq.tasks fairseq.models fairseq.trainer torch._dynamo nltk sacrebleu sacremoses"
    ).split(),
    "aiayn": "torch matplotlib.figure nltk sacrebleu sacremoses".split(),
}


def stock_model(d_model: int, d_ff: int, h: int) -> list[str]:
    """Return the options of fairseq's own Transformer with two layers, and of its task."""
    sizes = {"layers": 2, "embed-dim": d_model, "ffn-embed-dim": d_ff, "attention-heads": h}
    return ["--task", "translation", "--arch", "transformer", "--share-all-embeddings"] + [
        word
        for name, value in sizes.items()
        for stack in ("encoder", "decoder")
        for word in (f"--{stack}-{name}", str(value))
    ]


def write_program(path: Path, script: str) -> Path:
    """Write an executable shell script, and return its path."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def last_line(log: subprocess.CompletedProcess[str]) -> str:
    """Return the last line of a command's errors; it must have failed without a stack trace."""
    assert log.returncode == 1
    assert "Traceback" not in log.stderr
    return log.stderr.strip().splitlines()[-1]


def losses(log: subprocess.CompletedProcess[str]) -> list[float]:
    """Return the loss of each update in the log of a training run."""
    text = log.stdout + log.stderr
    return [float(loss) for loss in re.findall(r"train_inner .* loss=([\d.]+),", text)]


class Completed(subprocess.CompletedProcess[str]):
    """A command that has ended, and its peak memory in kB."""

    def __init__(self, args: list[str], status: int, stdout: str, stderr: str, peak: int) -> None:
        super().__init__(args, status, stdout, stderr)
        self.peak = peak


class CommandServer:
    """A process that has imported libraries and runs console scripts in forks of itself.

    `address` is the path of its socket: test processes with the same path share the server.
    It ends when all of them have stopped or died.
    """

    def __init__(self, *modules: str, address: Path) -> None:
        self.connection = socket.socket(socket.AF_UNIX)
        with open(f"{address}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                self.connection.connect(str(address))
            except OSError:  # it has not started, or ended
                address.unlink(missing_ok=True)
                with socket.socket(socket.AF_UNIX) as listener:
                    listener.bind(str(address))
                    listener.listen()
                    self.connection.connect(str(address))
                    program = Path(__file__).with_name("command_server.py")
                    subprocess.Popen([sys.executable, program, *modules], stdin=listener)
        self.stream = self.connection.makefile("rw")

    def run(
        self,
        command: Sequence[str | Path],
        cwd: str | Path,
        timeout: float | None = None,
        input: str | bytes | None = None,
    ) -> Completed:
        """Run a console script; `input`, if given, is its standard input, as from a file.

        Raises subprocess.TimeoutExpired.
        """
        words = [str(word) for word in command]
        with (
            tempfile.NamedTemporaryFile() as stdin,
            tempfile.NamedTemporaryFile("w+", errors="replace") as stdout,
            tempfile.NamedTemporaryFile("w+", errors="replace") as stderr,
        ):
            stdin.write(input.encode() if isinstance(input, str) else input or b"")
            stdin.flush()
            request = {
                "command": [str(Path(sys.executable).with_name(words[0])), *words[1:]],
                "cwd": str(cwd),
                "stdin": stdin.name,
                "stdout": stdout.name,
                "stderr": stderr.name,
                "timeout": timeout,
            }
            print(json.dumps(request), file=self.stream, flush=True)
            answer = json.loads(self.stream.readline())
            if answer is None:
                assert timeout is not None
                raise subprocess.TimeoutExpired(words, timeout, stdout.read(), stderr.read())
            status, peak = answer
            return Completed(words, status, stdout.read(), stderr.read(), peak)

    def stop(self) -> None:
        """Close the connection."""
        self.stream.close()
        self.connection.close()


@contextlib.contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Limit the size in bytes of the files that this process may write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def killed(command: Sequence[str | Path], log: Path, now: Callable[[], bool]) -> bool:
    """Run a command with its output in `log`, and kill it as soon as now() is true.

    Return whether it was killed. If it was not, it has ended by itself with status 0, or because an
    earlier run was killed after its result was complete. None of its child processes may survive.
    """
    with (
        open(log, "w") as file,
        subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        ) as process,
    ):
        while process.poll() is None:
            if now():
                process.kill()
                process.wait()
                wait_until(lambda: not alive(process.pid))
                return True
            time.sleep(0.001)
    output = log.read_text()
    assert process.returncode == 0 or DONE_BEFORE in output, output[-2000:]
    return False


def running(folder: Path) -> list[str]:
    """Return the IDs of the processes whose command line contains a folder."""
    processes = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            processes += [path.parent.name] if os.fsencode(folder) in path.read_bytes() else []
    return processes


def assert_ends(folder: Path) -> None:
    """Assert that the processes whose command line contains a folder end soon."""
    wait_until(lambda: not running(folder))


def alive(session: int) -> list[str]:
    """Return the running processes of a session."""
    processes = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended
            state, _, _, its_session = path.read_text().rpartition(")")[2].split()[:4]
            processes += [path.parent.name] if its_session == str(session) and state != "Z" else []
    return processes


def wait_until(
    condition: Callable[[], object], process: subprocess.Popen | None = None, seconds: float = 600
) -> None:
    """Wait until a condition is true; fail if that takes too long or the process has ended."""
    late = after(seconds)
    while not condition():
        assert not late() and (process is None or process.poll() is None)
        time.sleep(0.01)


def after(seconds: float) -> Callable[[], bool]:
    """Return a function that is true once this time has passed."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end
