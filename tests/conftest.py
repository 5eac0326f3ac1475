"""Fixtures of all tests."""

import fcntl
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Before torch is imported: some tests fork, and the fork of a process that has computed in several
# threads would wait for them forever.
os.environ["OMP_NUM_THREADS"] = "1"
# Background jobs of a shell ignore Ctrl-C, as would the commands that they test.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Subprocesses import the checkout, not the copy that is installed in .venv.
ROOT = Path(__file__).resolve().parent.parent
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])
)

# The tests' servers are on this machine.
os.environ["no_proxy"] = os.environ["NO_PROXY"] = "127.0.0.1,localhost"

import pytest  # noqa: E402
import torch  # noqa: E402
from browsers import CHROMIUM, FLAGS, Browser  # noqa: E402
from commands import LIBRARIES, PLUGIN, TRAIN, CommandServer  # noqa: E402

from aiayn_plugin.cli import main  # noqa: E402

if not torch.cuda.is_available():
    # Before Triton is imported: let its interpreter compute the GPU's kernels.
    os.environ.setdefault("TRITON_INTERPRET", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of whole commands first, so that workers, with a file each, end together.

    The first three, which take longest, do not need the model that most of the others wait for.
    """
    first = {"test_parsing", "test_own_attention", "test_wmt14_recipes"}
    items.sort(key=lambda item: (item.path.stem not in first, "system" not in item.path.parts))


@pytest.fixture(scope="session")
def repo() -> Path:
    """The root of the checkout.

    A test that runs fairseq in its own process gives `--user-dir` as `repo / "aiayn_plugin"`:
    fairseq refuses a plugin that is already imported from a different directory.
    """
    return ROOT


@pytest.fixture
def quiet() -> Iterator[None]:
    """During the test, fairseq logs nothing below warnings."""
    logging.disable(logging.INFO)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory) -> Path:
    """A directory that all workers share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def run(shared_folder) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """`run(command, ...)` runs a command of this checkout as a user would; check the result.

    `run("fairseq-train", "--help", cwd=tmp_path, env={"NAME": "value"}, timeout=60)`; `input` is
    the standard input. In every directory `--user-dir aiayn_plugin` is the checkout's plugin;
    fairseq alone would load the installed one. Commands of fairseq and `aiayn` run in a fork of a
    process that has imported their libraries, shared by all workers, except with `env`.
    """
    commands = Path(sys.executable).parent
    servers: dict[str, CommandServer] = {}

    def run_command(
        *command: str | Path,
        cwd: str | Path = ROOT,
        env: dict[str, str] | None = None,
        timeout: float | None = 600,
        input: str | bytes | None = None,
    ) -> subprocess.CompletedProcess[str]:
        words = [str(word) for word in command]
        for number, word in enumerate(words[:-1]):
            if word == "--user-dir" and words[number + 1] == PLUGIN.name:
                words[number + 1] = str(PLUGIN)
        kind = next((name for name in LIBRARIES if words[0].startswith(name)), None)
        needs_fairseq = words[1:2] == ["convert"] or "--user-dir" in " ".join(words)
        if kind == "aiayn" and needs_fairseq:
            kind = "fairseq-"
        if kind and env is None:
            if kind not in servers:
                servers[kind] = CommandServer(
                    *LIBRARIES[kind], address=shared_folder / f"{kind}.socket"
                )
            return servers[kind].run(words, cwd, timeout, input)
        path = os.pathsep.join([str(commands), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path, **(env or {})}
        environment["PYTHONPATH"] = os.pathsep.join([environment["PYTHONPATH"], str(ROOT)])
        return subprocess.run(
            words,
            cwd=cwd,
            env=environment,
            input=input.decode() if isinstance(input, bytes) else input or "",
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    yield run_command
    for server in servers.values():
        server.stop()


@pytest.fixture(scope="session")
def succeed(run) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`succeed(command, …)` is `run(command, …)` for a command that must end with status 0."""

    def run_command(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        log = run(*command, **options)
        assert log.returncode == 0, log.stdout[-2000:] + log.stderr
        return log

    return run_command


@pytest.fixture(scope="session")
def error() -> Callable[..., str]:
    """`error("prepare", *args)` runs a command that must fail, and returns its message.

    The message must have exactly `lines` lines.
    """

    def fail(*command: object, lines: int = 1) -> str:
        handler = signal.getsignal(signal.SIGTERM)
        try:
            with pytest.raises(SystemExit) as stopped:
                main([str(word) for word in command])
        finally:
            signal.signal(signal.SIGTERM, handler)
        message = str(stopped.value)
        assert message.startswith("aiayn: error: ") and message.count("\n") == lines - 1, message
        return message.removeprefix("aiayn: error: ")

    return fail


@pytest.fixture(scope="session")
def transformers() -> Any:
    """Hugging Face's transformers; without it, the test is skipped.

    It imports torchaudio, which fairseq requires but which fails to load next to torch for the CPU.
    """
    sys.modules.setdefault("torchaudio", None)  # type: ignore[arg-type]
    return pytest.importorskip(
        "transformers", reason="needs transformers: pip install transformers"
    )


@pytest.fixture(scope="session")
def once(shared_folder) -> Callable[[str, Callable[[Path], None]], Path]:
    """`once(name, make)` is a directory that `make` filled, in the first worker that needed it.

    All workers share it: no test may change it.
    """

    def get(name: str, make: Callable[[Path], None]) -> Path:
        folder = shared_folder / name
        with open(shared_folder / f"{name}.lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.stat(lock.fileno()).st_size:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                lock.write("done")
        return folder

    return get


@pytest.fixture(scope="session")
def prepare(succeed, once) -> Callable[[int, int, int], Path]:
    """`prepare(train, valid, test)` is a data directory with these numbers of pairs."""

    def make(folder: Path, *numbers: int) -> None:
        sizes = [
            word
            for split, number in zip(("train", "valid", "test"), numbers, strict=True)
            for word in (f"--{split}", str(number))
        ]
        succeed(sys.executable, "preprocess/cldr.py", "--dest", folder / "raw", *sizes)
        splits = [f"--{split}pref={folder}/raw/{split}" for split in ("train", "valid", "test")]
        succeed(
            *("aiayn", "prepare", "-s", "en", "-t", "de", *splits),
            *("--destdir", folder / "data", "--merges", "500"),
        )

    def data(*numbers: int) -> Path:
        name = "-".join(map(str, ("corpus", *numbers)))
        return once(name, lambda folder: make(folder, *numbers)) / "data"

    return data


@pytest.fixture(scope="session")
def corpus(prepare) -> Path:
    """A data directory with 2,000 training, 214 validation and 5 test pairs."""
    return prepare(2000, 214, 5)


@pytest.fixture(scope="session")
def model_dir(succeed, corpus, once) -> Path:
    """A run directory with data/, model.pt and checkpoints of a model after 30 updates."""

    def make(folder: Path) -> None:
        succeed(
            *("fairseq-train", corpus, *TRAIN, "--positions", "learned", "--warmup-updates", "10"),
            *("--max-update", "30", "--save-interval-updates", "10", "--disable-validation"),
            *("--save-dir", folder),
        )
        shutil.copy(folder / "checkpoint_last.pt", folder / "model.pt")
        shutil.copytree(corpus, folder / "data")

    return once("model_dir", make)


@pytest.fixture(scope="session")
def browser(tmp_path_factory) -> Iterator[Browser]:
    """A browser; without one its tests are skipped."""
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("needs Chromium and its driver: apt install chromium chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    chromium = webdriver.Chrome(options, webdriver.ChromeService(driver))
    chromium.set_page_load_timeout(60)
    yield Browser(chromium)
    chromium.quit()
