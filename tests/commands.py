"""What the tests type after fairseq's commands, and how they read what a command printed."""

import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

#: The plugin of this checkout; by its name alone fairseq may find the installed one.
PLUGIN = Path(__file__).resolve().parent.parent / "aiayn_plugin"
#: A small model of the plugin, on the CPU, with a line of log for each update.
SMALL = (
    "--arch aiayn_tiny --N 1 --d-model 32 --d-ff 64 --cpu --num-workers 0 --log-format simple "
    "--log-interval 1"
).split()
#: A training of it, as a whole command.
TRAIN = ["--user-dir", str(PLUGIN), *SMALL]
#: A training by fairseq's own parts, without its task and its model.
STOCK_TRAINING = (
    "--optimizer adam --lr-scheduler inverse_sqrt --criterion label_smoothed_cross_entropy "
    "--label-smoothing 0.1 --no-epoch-checkpoints --disable-validation --cpu --num-workers 0"
).split() + ["--adam-betas", "(0.9, 0.98)"]
#: What a command says that makes a new directory, if it is there.
DONE_BEFORE = "already exists: choose another output directory"
#: Raw text for a model of the corpus: one line is empty, and the first comes back as the last.
LINES = ["March 3", "", "Monday, May 1, 2023", "5 hours and 3 minutes", "March 3"]


def stock_model(d_model: int, d_ff: int, h: int) -> list[str]:
    """Return the options of fairseq's own Transformer with two layers, and of its task."""
    sizes = {"layers": 2, "embed-dim": d_model, "ffn-embed-dim": d_ff, "attention-heads": h}
    return ["--task", "translation", "--arch", "transformer", "--share-all-embeddings"] + [
        word
        for name, value in sizes.items()
        for stack in ("encoder", "decoder")
        for word in (f"--{stack}-{name}", str(value))
    ]


def last_line(log: subprocess.CompletedProcess[str]) -> str:
    """Return the last line of a command's errors; it has to fail without a stack trace."""
    assert log.returncode == 1
    assert "Traceback" not in log.stderr
    return log.stderr.strip().splitlines()[-1]


def losses(log: subprocess.CompletedProcess[str]) -> list[float]:
    """Return the loss of each update that a training has logged."""
    text = log.stdout + log.stderr
    return [float(loss) for loss in re.findall(r"train_inner .* loss=([\d.]+),", text)]


def killed(command: Sequence[str | Path], log: Path, now: Callable[[], bool]) -> bool:
    """Run a command with its output in `log`, and kill it as soon as now() is true.

    Return whether it was killed; if not, it has ended by itself, with status 0, or because a run
    before it was killed when its result was whole. No process that it started may stay.
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
                end = after(60)
                while alive(process.pid) and not end():
                    time.sleep(0.05)
                assert not alive(process.pid)
                return True
            time.sleep(0.001)
    said = log.read_text()
    assert process.returncode == 0 or DONE_BEFORE in said, said[-2000:]
    return False


def alive(session: int) -> list[str]:
    """Return the processes of a session that still run."""
    processes = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            state, _, _, its_session = path.read_text().rpartition(")")[2].split()[:4]
            processes += [path.parent.name] if its_session == str(session) and state != "Z" else []
    return processes


def after(seconds: float) -> Callable[[], bool]:
    """Return what becomes true after some seconds."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


@contextlib.contextmanager
def forked(*plugin: str | Path) -> Iterator[Callable[..., dict]]:
    """Give a function that runs a command of fairseq as forked.py does, in some tenths of a second.

    It returns "status", negative for a command that takes too long, and "output".
    """
    program = Path(__file__).with_name("forked.py")
    with subprocess.Popen(
        [sys.executable, program, *plugin], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        commands, answers = server.stdin, server.stdout

        def run(*command: str | Path) -> dict:
            commands.write(json.dumps([str(word) for word in command]) + "\n")
            commands.flush()
            return json.loads(answers.readline())

        yield run
        commands.close()
