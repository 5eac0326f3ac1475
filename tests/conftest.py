"""What the tests share."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repo() -> Path:
    """The root of the checkout.

    A test that runs fairseq in this process gives `--user-dir` as `repo / "aiayn_plugin"`: fairseq
    refuses a plugin that is already imported from another place.
    """
    return ROOT


@pytest.fixture(scope="session")
def run() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command as a user would, with the commands of this Python's environment on PATH.

    `run("fairseq-train", "--help", cwd=tmp_path, env={"NAME": "value"}, timeout=60)`; the result
    is not checked.
    """
    commands = str(Path(sys.executable).parent)

    def run_command(
        *command: str | Path,
        cwd: str | Path = ROOT,
        env: dict[str, str] | None = None,
        **options,
    ) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([commands, os.environ["PATH"]])
        return subprocess.run(
            [str(word) for word in command],
            cwd=cwd,
            env={**os.environ, "PATH": path, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            **options,
        )

    return run_command


@pytest.fixture(scope="session")
def prepare(run, tmp_path_factory) -> Callable[..., Path]:
    """`prepare(train, valid, test)` gives a prepared directory of the embedded corpus."""

    def make(train: int, valid: int, test: int) -> Path:
        folder = tmp_path_factory.mktemp("corpus")
        sizes = ["--train", train, "--valid", valid, "--test", test]
        made = run(sys.executable, "preprocess/cldr.py", "--dest", folder / "raw", *sizes)
        assert made.returncode == 0, made.stderr
        splits = [f"--{split}pref={folder}/raw/{split}" for split in ("train", "valid", "test")]
        made = run(
            *(sys.executable, "preprocess/prepare.py", "-s", "en", "-t", "de", *splits),
            *("--destdir", folder / "data", "--merges", "500"),
        )
        assert made.returncode == 0, made.stderr
        return folder / "data"

    return make


@pytest.fixture(scope="session")
def corpus(prepare) -> Path:
    """A prepared directory with 1,014 validation pairs and 5 test pairs."""
    return prepare(2000, 1014, 5)
