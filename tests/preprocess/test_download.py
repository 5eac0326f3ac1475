"""Downloads from a local HTTP server: resuming, mirrors, checksums and limits."""

import hashlib
import re

import pytest

from aiayn_plugin.corpus.download import Download, Unavailable, fetch
from aiayn_plugin.errors import InputError

SIZE = 300_000
CONTENT, CHANGED = b"1" * SIZE, b"2" * SIZE
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def get(mirror, tmp_path):
    """`get(size=None, sha256=None)` fetches x from the mirror or its second address."""
    mirror.files["x"] = CONTENT

    def get(addresses=None, **published):
        addresses = addresses or (f"{mirror.address}/x", f"{mirror.address}/second/x")
        record = tmp_path / "downloads.json"
        fetch(Download("x", addresses, **published), tmp_path, record, pauses=(0.0, 0.0))
        content = (tmp_path / "x").read_bytes()
        assert {path.name for path in tmp_path.iterdir()} <= {"x", "downloads.json"}
        return content

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
    assert get(sha256=SHA256) == CONTENT
    assert mirror.requests == requests


def test_log_shows_megabytes_and_their_rate(get, capsys):
    get(size=SIZE)
    assert re.search(r"^x: 0\.3 of 0\.3 MB, [\d,]+\.\d MB/s$", capsys.readouterr().err, re.M)


def test_second_mirror_is_used_if_the_first_server_is_down(mirror, get):
    assert get(("http://127.0.0.1:9/x", f"{mirror.address}/x")) == CONTENT


def test_interrupted_download_resumes_in_the_next_run(mirror, get, tmp_path):
    (tmp_path / "x.part").write_bytes(CONTENT[:1000])
    assert get(sha256=SHA256) == CONTENT
    assert mirror.requests == [("x", "bytes=1000-")]


def test_wrong_beginning_is_discarded(mirror, get, tmp_path):
    (tmp_path / "x.part").write_bytes(b"<html>log in first</html>")
    assert get(sha256=SHA256) == CONTENT
    assert mirror.requests == [("x", "bytes=25-"), ("x", None)]


@pytest.mark.parametrize("size", [100, SIZE + 1])
def test_file_of_wrong_size_is_refused(mirror, get, tmp_path, size):
    with pytest.raises(Unavailable, match="larger than 100 bytes|has 300,000 bytes, not 300,001"):
        get(size=size)
    assert not (tmp_path / "x").exists()


def test_file_of_unannounced_size_cannot_exceed_the_published_size(mirror, get, tmp_path):
    mirror.faults |= {"x": "no length", "second/x": "no length"}
    assert get(size=SIZE) == CONTENT
    (tmp_path / "x").unlink()
    with pytest.raises(Unavailable, match="larger than 299,999 bytes"):
        get(size=SIZE - 1)


def test_permanent_errors_are_not_retried(mirror, get):
    mirror.faults |= {"x": "missing", "second/x": "missing"}
    with pytest.raises(Unavailable, match="x: .*/x .*error: 404.*second/x .*error: 404.*by hand"):
        get()
    assert len(mirror.requests) == 2


def test_temporary_errors_end_after_the_pauses(mirror, get):
    mirror.faults |= {"x": "busy", "second/x": "missing"}
    with pytest.raises(Unavailable, match="error: 503"):
        get()
    assert mirror.requests == [("x", None)] * 3 + [("second/x", None)]


# ---- Files without a checksum, which may change between two attempts


def change_after_half(mirror, before, after):
    """Change x and its headers when half of it has been sent."""

    def change():
        mirror.files["x"], mirror.versions["x"] = CHANGED, after

    mirror.versions["x"], mirror.changes["x"] = before, change


def test_unchanged_version_is_resumed(mirror, get):
    mirror.versions["x"], mirror.changes["x"] = {"ETag": '"1"'}, lambda: None
    assert get() == CONTENT
    assert mirror.requests == [("x", None), ("x", "bytes=150000-")]
    assert mirror.conditions == [None, '"1"']


@pytest.mark.parametrize(
    ("before", "after", "ranges"),
    [
        ({"ETag": '"1"'}, {"ETag": '"2"'}, [None, "bytes=150000-", None]),
        ({"ETag": 'W/"1"'}, {"ETag": 'W/"1"'}, [None, None]),  # a weak ETag is not a version
        ({}, {}, [None, None]),
    ],
)
def test_changed_file_is_fetched_from_the_start(mirror, get, before, after, ranges):
    change_after_half(mirror, before, after)
    assert get() == CHANGED
    assert mirror.requests == [("x", byte_range) for byte_range in ranges]


def test_recorded_checksum_is_enforced(mirror, get, tmp_path, capsys):
    assert get() == CONTENT
    assert "no checksum is published" in capsys.readouterr().err
    (tmp_path / "x").unlink()
    assert get() == CONTENT
    assert "recorded at its first download" in capsys.readouterr().err
    (tmp_path / "x").write_bytes(CHANGED)
    with pytest.raises(InputError, match="has the sha256 .*; delete it to fetch it again"):
        get()
    (tmp_path / "x").unlink()
    mirror.files["x"] = CHANGED
    with pytest.raises(Unavailable, match="has the sha256"):
        get()
