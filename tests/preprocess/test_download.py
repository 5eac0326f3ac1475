"""Downloads from odd servers and of odd files. test_wmt14_faults.py has the faults of a run."""

import hashlib

import pytest
from corpus.download import Download, Unavailable, fetch
from mirror import EUROPARL


def test_beginning_from_elsewhere_does_not_spoil_a_sound_address(tmp_path, mirror):
    (tmp_path / "x.tgz.part").write_bytes(b"<html>log in first</html>")
    sound = mirror.files[EUROPARL]
    digest = hashlib.sha256(sound).hexdigest()
    wanted = Download("x.tgz", (f"{mirror.address}/{EUROPARL}",), None, digest)
    fetch(wanted, tmp_path, tmp_path / "checksums.json")
    assert (tmp_path / "x.tgz").read_bytes() == sound
    assert [byte_range for _, byte_range in mirror.requests] == ["bytes=25-", None]


def test_file_of_another_size_is_not_even_read(tmp_path, mirror):
    wanted = Download("x.tgz", (f"{mirror.address}/{EUROPARL}",), 100)
    with pytest.raises(Unavailable, match="has a file of .* bytes, not 100"):
        fetch(wanted, tmp_path, tmp_path / "checksums.json")
    assert len(mirror.requests) == 1 and not list(tmp_path.iterdir())


def test_missing_server_does_not_stop_the_next_address(tmp_path, mirror):
    wanted = Download("x.tgz", ("http://127.0.0.1:9/x", f"{mirror.address}/{EUROPARL}"))
    fetch(wanted, tmp_path, tmp_path / "checksums.json")
    assert (tmp_path / "x.tgz").read_bytes() == mirror.files[EUROPARL]


# ---- Files without a checksum that change between two tries

OLD, NEW = "Mon, 06 Jan 2014 00:00:00 GMT", "Tue, 07 Jan 2014 00:00:00 GMT"
FUTURE = "Fri, 01 Jan 2100 00:00:00 GMT"  # a time that may not be over when the answer is made
HALF = "bytes=50000-"


@pytest.fixture
def change(mirror, tmp_path):
    """`change(before, after)` fetches a file that changes after half of it was sent.

    `before` and `after` are its headers. The function returns the range and the condition of each
    request, after it checked that the file is the new one.
    """

    def fetch_changing(before, after, content=b"2" * 100_000):
        def change():
            mirror.files["x"], mirror.versions["x"] = content, after

        mirror.files["x"], mirror.versions["x"] = b"1" * 100_000, before
        mirror.changes["x"] = change
        wanted = Download("x", (f"{mirror.address}/x",))
        fetch(wanted, tmp_path, tmp_path / "checksums.json")
        assert (tmp_path / "x").read_bytes() == content
        assert {path.name for path in tmp_path.iterdir()} == {"x", "checksums.json"}
        ranges = [byte_range for _, byte_range in mirror.requests]
        return list(zip(ranges, mirror.conditions, strict=True))

    return fetch_changing


@pytest.mark.parametrize(
    ("before", "after", "condition"),
    [
        ({"ETag": '"1"', "Last-Modified": OLD}, {"ETag": '"2"', "Last-Modified": OLD}, '"1"'),
        ({"ETag": 'W/"1"', "Last-Modified": OLD}, {"ETag": 'W/"1"', "Last-Modified": NEW}, OLD),
        ({"Last-Modified": OLD}, {}, OLD),
    ],
)
def test_rest_is_asked_for_on_condition_that_nothing_changed(change, before, after, condition):
    assert change(before, after) == [(None, None), (HALF, condition)]


@pytest.mark.parametrize(
    "before",
    [{}, {"ETag": 'W/"1"'}, {"ETag": "1"}, {"Last-Modified": FUTURE}, {"Last-Modified": "then"}],
)
def test_file_without_a_strong_version_is_fetched_anew(change, before):
    assert change(before, before) == [(None, None), (None, None)]


@pytest.mark.parametrize(
    ("after", "size"), [({"ETag": '"2"'}, 100_000), ({"Last-Modified": NEW}, 100_000), ({}, 99_999)]
)
def test_server_that_ignores_the_condition_is_found_out(change, mirror, after, size):
    mirror.faults["x"] = "no conditions"
    asked = change({"ETag": '"1"', "Last-Modified": OLD}, after, b"2" * size)
    assert asked == [(None, None), (HALF, '"1"'), (None, None)]


def test_unchanged_file_is_continued(change):
    version = {"ETag": '"1"'}
    assert change(version, version, b"1" * 100_000) == [(None, None), (HALF, '"1"')]


def test_file_is_not_continued_at_another_address(mirror, tmp_path):
    mirror.files["x"] = b"1" * 100_000
    mirror.versions |= {path: {"ETag": '"1"'} for path in ("x", "second/x")}

    def change():
        mirror.files["x"] = b"2" * 100_000
        mirror.faults["x"] = "missing"

    mirror.changes["x"] = change
    addresses = f"{mirror.address}/x", f"{mirror.address}/second/x"
    fetch(Download("x", addresses), tmp_path, tmp_path / "checksums.json")
    assert (tmp_path / "x").read_bytes() == b"2" * 100_000
    assert mirror.requests == [("x", None), ("x", HALF), ("second/x", None)]


def test_file_that_changes_at_every_try_is_given_up(mirror, tmp_path):
    mirror.faults["x"] = "no conditions"

    def change():
        mirror.versions["x"] = {"ETag": f'"{len(mirror.requests)}"'}
        mirror.changes["x"] = change

    mirror.files["x"] = b"1" * 100_000
    change()
    with pytest.raises(Unavailable, match="has changed|connection broken"):
        fetch(Download("x", (f"{mirror.address}/x",)), tmp_path, tmp_path / "checksums.json")
    assert len(mirror.requests) < 10
