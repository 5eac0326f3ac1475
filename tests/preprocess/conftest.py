"""Shared by the tests of preparing data: the mirror and complete runs of wmt14."""

import shutil

import pytest
from mirror import serve, wmt14_arguments

from aiayn_plugin.corpus.parallel import start_workers
from aiayn_plugin.corpus.sources import read_texts
from aiayn_plugin.corpus.table import load_pair


@pytest.fixture(scope="session")
def server():
    """One mirror for all tests, which use it through `mirror`."""
    shutil.which("curl") or pytest.skip("needs curl")
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
def undisturbed(server, succeed, tmp_path_factory):
    """`undisturbed(pair)` runs wmt14; the result is its directory and its output."""

    def prepare(pair):
        server.faults.clear()
        folder = tmp_path_factory.mktemp(pair)
        table = server.table(folder / "table.yaml")
        done = succeed("aiayn", "wmt14", *wmt14_arguments(pair, folder / pair, table), cwd=folder)
        assert {path.name for path in folder.iterdir()} == {"table.yaml", pair}
        return folder / pair, done

    return prepare


@pytest.fixture(scope="session")
def en_de(undisturbed):
    """One uninterrupted run of wmt14 for all tests."""
    return undisturbed("en-de")


@pytest.fixture(scope="session")
def en_fr(undisturbed):
    """One uninterrupted run of wmt14 for all tests."""
    return undisturbed("en-fr")


@pytest.fixture
def read(monkeypatch):
    """`read(pair, dest, table)` does the first part of wmt14, without pauses between retries."""

    monkeypatch.setattr("aiayn_plugin.corpus.download.RETRY_DELAYS", (0.0, 0.0))

    def read(pair, dest, table):
        dest.mkdir(exist_ok=True)
        with start_workers(1) as workers:
            return read_texts(load_pair(table, pair), dest, workers)

    return read
