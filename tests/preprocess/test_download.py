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
