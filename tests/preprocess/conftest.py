"""Shared by the tests of preparing data: the mirror, complete runs of wmt14, error messages."""

import venv

import pytest
from mirror import serve, wmt14_arguments

from aiayn_plugin.corpus.parallel import start_workers
from aiayn_plugin.corpus.sources import read_texts
from aiayn_plugin.corpus.table import load_pair


@pytest.fixture(scope="session")
def server():
    """One mirror for all tests, which use it through `mirror`."""
    with serve(pairs=60) as running:
        yield running


@pytest.fixture
def mirror(server):
    """The mirror without faults and with its original files."""
    for log in (server.faults, server.requests):
        log.clear()
    original = dict(server.files)
    yield server
    server.files = original


@pytest.fixture(scope="session")
def whole(server, run, tmp_path_factory):
    """For each language pair, the directory and the output of one undisturbed run of wmt14."""
    server.faults.clear()
    folder = tmp_path_factory.mktemp("whole")
    table = server.table(folder / "table.yaml")
    runs = {}
    for pair in ("en-de", "en-fr"):
        done = run("aiayn", "wmt14", *wmt14_arguments(pair, folder / pair, table), cwd=folder)
        assert done.returncode == 0, done.stderr
        runs[pair] = folder / pair, done
    assert {path.name for path in folder.iterdir()} == {"table.yaml", *runs}
    return runs


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory):
    """A Python without any installed package."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    return str(folder / "bin" / "python")


@pytest.fixture
def read(monkeypatch):
    """`read(pair, dest, table)` does the first part of wmt14, without pauses between retries."""

    monkeypatch.setattr("aiayn_plugin.corpus.download.PAUSES", (0.0, 0.0))

    def read(pair, dest, table):
        dest.mkdir(exist_ok=True)
        with start_workers(1) as workers:
            return read_texts(load_pair(table, pair), dest, workers)

    return read


@pytest.fixture(scope="session")
def error(run):
    """`error("prepare", *args)` runs a command that must fail, and returns its message.

    The message must have the number of `lines`, and no other line may mention an error.
    """

    def fail(*command, lines=1):
        done = run("aiayn", *command)
        assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
        message = done.stderr.partition("aiayn: error: ")[2].strip()
        assert message and message.count("\n") == lines - 1, done.stderr
        return message

    return fail
