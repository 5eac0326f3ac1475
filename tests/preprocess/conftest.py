"""Shared by the tests of preprocess/: the mirror, complete runs of wmt14.py, error messages."""

import subprocess
import sys
import venv

import pytest
import wmt14
from corpus.parallel import start_workers
from corpus.sources import read_texts
from corpus.table import load_pair
from mirror import serve, wmt14_arguments


@pytest.fixture(scope="session")
def server():
    """One mirror for all tests, which use it through `mirror`."""
    with serve(pairs=60) as running:
        yield running


@pytest.fixture
def mirror(server):
    """The mirror without faults and with its original files."""
    for log in (server.faults, server.requests, server.conditions, server.versions, server.changes):
        log.clear()
    original = dict(server.files)
    yield server
    server.files = original


@pytest.fixture(scope="session")
def whole(server, tmp_path_factory):
    """For each language pair, the directory and the output of one undisturbed run of wmt14.py."""
    server.faults.clear()
    folder = tmp_path_factory.mktemp("whole")
    table = server.table(folder / "table.yaml")
    runs = {}
    for pair in ("en-de", "en-fr"):
        command = [sys.executable, wmt14.__file__, *wmt14_arguments(pair, folder / pair, table)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
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
def read():
    """`read(pair, dest, table)` does the first part of wmt14.py, without pauses between retries."""

    def read(pair, dest, table):
        dest.mkdir(exist_ok=True)
        with start_workers(1) as workers:
            return read_texts(load_pair(table, pair), dest, workers, pauses=(0.0, 0.0))

    return read


@pytest.fixture
def error(capsys):
    """`error(prepare, *args)` runs a command that must fail, and returns its message.

    The message must have the number of `lines`, and no other line may mention an error.
    """

    def fail(command, *args, lines=1):
        capsys.readouterr()
        assert command.main([str(arg) for arg in args]) == 1
        stderr = capsys.readouterr().err
        start = f"{command.__name__}.py: error: "
        assert "Traceback" not in stderr
        message = stderr.partition(start)[2].strip()
        assert message and message.count("\n") == lines - 1, stderr
        return message

    return fail
