"""Commands killed at any moment and run again yield the same results and leave nothing behind.

AIAYN_KILLS=10 means 50 kills of training, 30 of preparing, and 10 each of averaging, bundling
and exporting; the default is a tenth of each.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from commands import DONE_BEFORE, TRAIN, after, killed
from mirror import content

pytestmark = pytest.mark.long
TIMES = int(os.environ.get("AIAYN_KILLS", "1"))
BIN = Path(sys.executable).parent


def says(log: Path, text: str) -> Callable[[], bool]:
    """Return a function that is true once a log contains a text."""
    return lambda: re.search(text, log.read_text()) is not None


def appears(*paths: Path, more: float) -> Callable[[], bool]:
    """Return a function that is true some seconds after one of the paths exists."""

    def now() -> bool:
        if any(os.path.lexists(path) for path in paths):
            time.sleep(more)
            return True
        return False

    return now


def survive(
    kills: int, command: list, log: Path, moments: Iterator[Callable], check: Callable[[], None]
) -> None:
    """Kill a command `kills` times, in groups of five, each followed by a complete run.

    A run that ends before its moment does not count: it is checked, and a new group begins.
    """
    done = group = early = 0
    while done < kills:
        if killed(command, log, next(moments)):
            done, group = done + 1, group + 1
        else:
            group, early = 5, early + 1
        if group == 5 or done == kills:
            again = subprocess.run([str(word) for word in command], capture_output=True, text=True)
            said = again.stdout + again.stderr
            assert again.returncode == 0 or DONE_BEFORE in said, said[-2000:]
            check()
            group = 0
            print(f"{command[0]} {command[1]}: {done} kills, {early} runs ended before", flush=True)


def timed(command: list) -> float:
    """Run a command to its end, and return the seconds it took."""
    began = time.monotonic()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return time.monotonic() - began


def test_training(prepare, tmp_path):
    """Every fifth kill comes after the last checkpoint is written, before the process ends."""
    command = [
        *(BIN / "fairseq-train", prepare(300, 30, 5), *TRAIN, "--max-tokens", "400"),
        *("--update-freq", "2", "--max-update", "60", "--save-interval-updates", "15"),
        "--save-dir",
    ]
    whole, run, log = tmp_path / "whole", tmp_path / "run", tmp_path / "log"
    seconds = timed([*command, whole])
    rng = random.Random(0)

    def moments():
        while True:
            for _ in range(4):
                yield after(rng.uniform(0, seconds))
            yield says(log, r"@ 60 updates, score|this run has finished")

    def check():
        assert {path.name for path in run.iterdir()} == {path.name for path in whole.iterdir()}
        for line in (run / "run.jsonl").read_text().splitlines():
            json.loads(line)
        for path in whole.glob("checkpoint*.pt"):
            expected, found = (torch.load(p, weights_only=True) for p in (path, run / path.name))
            for name, weight in expected["model"].items():
                assert torch.equal(found["model"][name], weight), (path, name)
            moments_of = [state["last_optimizer_state"]["state"] for state in (found, expected)]
            torch.testing.assert_close(*moments_of, rtol=0, atol=0)
            last = [state["optimizer_history"][-1] for state in (found, expected)]  # one a start
            for history in last:  # a kill between a checkpoint and fairseq's note of its best loss
                del history["lr_scheduler_state"]["best"]
            assert last[0] == last[1], path
            for part in ("train_iterator", "val_loss", "best"):
                assert found["extra_state"][part] == expected["extra_state"][part], (path, part)
        shutil.rmtree(run)

    survive(5 * TIMES, [*command, run], log, moments(), check)


def test_preparing(tmp_path):
    raw, log = tmp_path / "raw", tmp_path / "log"
    timed(
        [
            *(sys.executable, "preprocess/cldr.py", "--dest", raw, "--train", "500"),
            *("--valid", "30", "--test", "10"),
        ]
    )
    command = [
        *(BIN / "aiayn", "prepare", "-s", "en", "-t", "de", "--merges", "200"),
        *("--workers", "2", "--trainpref", raw / "train", "--validpref", raw / "valid"),
        *("--testpref", raw / "test", "--destdir"),
    ]
    seconds = timed([*command, tmp_path / "whole"])
    expected, data = content(tmp_path / "whole"), tmp_path / "data"
    rng = random.Random(0)

    def moments():
        while True:
            for _ in range(4):
                yield after(rng.uniform(0, seconds))
            yield says(log, "training pairs:")

    def check():
        assert content(data) == expected
        assert {path.name for path in tmp_path.iterdir()} == {"raw", "whole", "data", "log"}
        shutil.rmtree(data)

    survive(3 * TIMES, [*command, data], log, moments(), check)


@pytest.fixture(scope="module")
def trained(prepare, tmp_path_factory) -> Path:
    """A model directory with two checkpoints to average."""
    folder = tmp_path_factory.mktemp("trained")
    shutil.copytree(prepare(300, 30, 5), folder / "data")
    timed(
        [
            *(BIN / "fairseq-train", folder / "data", *TRAIN, "--d-model", "256", "--d-ff", "4096"),
            *("--max-update", "4", "--save-interval-updates", "2", "--disable-validation"),
            *("--save-dir", folder),
        ]
    )
    shutil.copy(folder / "checkpoint_last.pt", folder / "model.pt")
    return folder


@pytest.mark.parametrize("name", ["average", "bundle", "export"])
def test_aiayn(trained, tmp_path, name):
    """Four of five kills come within 0.2 s after it begins to write."""
    if name == "export":
        pytest.importorskip("ctranslate2")
    options = {"average": ["--inputs", trained, "--num-update-checkpoints", "2"]}
    command = [BIN / "aiayn", name, *options.get(name, [trained]), "--output"]
    seconds = timed([*command, tmp_path / "whole" / "out"])
    output, rng = tmp_path / "again" / "out", random.Random(0)

    def moments():
        while True:
            for _ in range(4):
                yield appears(
                    output.with_name("out.tmp"),
                    output.with_name(".out.unfinished"),
                    more=rng.uniform(0, 0.2),
                )
            yield after(rng.uniform(0, seconds))

    def check():
        assert content(output.parent) == content(tmp_path / "whole")
        assert [path.name for path in output.parent.iterdir()] == ["out"]
        shutil.rmtree(output.parent)

    survive(TIMES, [*command, output], tmp_path / "log", moments(), check)
