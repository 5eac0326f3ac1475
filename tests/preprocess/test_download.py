"""Downloads from a local HTTP server: resuming, mirrors, checksums and limits."""

import hashlib
import re

import pytest

from aiayn_plugin.corpus import download
from aiayn_plugin.corpus.download import Download, DownloadError, fetch

SIZE = 300_000
CONTENT = b"1" * SIZE
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def get(mirror, tmp_path, monkeypatch):
    """`get(size=None)` fetches x from the mirror or its second URL."""
    mirror.files["x"] = CONTENT
    monkeypatch.setattr(download, "RETRY_DELAYS", (0.0, 0.0))

    def get(size=None):
        urls = (f"{mirror.address}/x", f"{mirror.address}/second/x")
        fetch(Download("x", urls, {"sha256": SHA256}, size), tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {"x"}
        return (tmp_path / "x").read_bytes()

    return get


@pytest.mark.parametrize(
    ("fault", "requests"),
    [
        (None, [("x", None)]),
        ("cut", [("x", None), *(("x", f"bytes={n}-") for n in (150_000, 225_000, 262_500))]),
        ("no ranges", [("x", None), ("x", "bytes=150000-"), ("x", None)]),
        ("missing", [("x", None), ("second/x", None)]),
        ("wrong", [("x", None), ("second/x", None)]),
        ("refused", [("x", None)] * 3 + [("second/x", None)]),
    ],
)
def test_faults_of_a_server_do_not_change_the_file(mirror, get, fault, requests):
    if fault:
        mirror.faults["x"] = fault
    assert get(size=SIZE) == CONTENT
    assert mirror.requests == requests


def test_log_shows_megabytes_and_their_rate(get, capsys):
    get(size=SIZE)
    assert re.search(r"^x: 0\.3 of 0\.3 MB, [\d,]+\.\d MB/s$", capsys.readouterr().err, re.M)


@pytest.mark.usefixtures("get")
def test_md5_is_verified_too(mirror, tmp_path):
    right, wrong = (
        Download(name, (f"{mirror.address}/x",), {"md5": hashlib.md5(content).hexdigest()})
        for name, content in (("right", CONTENT), ("wrong", b"other"))
    )
    fetch(right, tmp_path)
    assert (tmp_path / "right").read_bytes() == CONTENT
    with pytest.raises(DownloadError, match="has the md5"):
        fetch(wrong, tmp_path)
    assert not (tmp_path / "wrong").exists()


def test_interrupted_download_resumes_in_the_next_run(mirror, get, tmp_path):
    (tmp_path / "x.part").write_bytes(CONTENT[:1000])
    assert get() == CONTENT
    assert mirror.requests == [("x", "bytes=1000-")]


def test_wrong_beginning_is_discarded(mirror, get, tmp_path):
    (tmp_path / "x.part").write_bytes(b"<html>log in first</html>")
    assert get() == CONTENT
    assert mirror.requests == [("x", "bytes=25-"), ("x", None)]


@pytest.mark.parametrize("size", [100, SIZE + 1])
def test_file_of_wrong_size_is_refused(mirror, get, tmp_path, size):
    with pytest.raises(DownloadError, match="larger than 100 bytes|has 300,000 bytes, not 300,001"):
        get(size=size)
    assert not (tmp_path / "x").exists()


def test_file_of_unannounced_size_cannot_exceed_the_published_size(mirror, get, tmp_path):
    mirror.faults |= {"x": "no length", "second/x": "no length"}
    assert get(size=SIZE) == CONTENT
    (tmp_path / "x").unlink()
    with pytest.raises(DownloadError, match="larger than 299,999 bytes"):
        get(size=SIZE - 1)


def test_an_unknown_host_is_not_tried_again(tmp_path, monkeypatch, capsys):
    """Without a network, the files to download by hand are listed at once."""
    monkeypatch.setattr(download, "RETRY_DELAYS", (0.0,))
    with pytest.raises(DownloadError, match="resolve host"):
        fetch(Download("x", ("http://host.invalid/x",), {"sha256": SHA256}, SIZE), tmp_path)
    assert "trying again" not in str(capsys.readouterr())


def test_temporary_errors_end_after_the_last_retry(mirror, get):
    mirror.faults |= {"x": "busy", "second/x": "missing"}
    with pytest.raises(DownloadError, match="error: 503"):
        get()
    assert mirror.requests == [("x", None)] * 3 + [("second/x", None)]
