"""Downloads from servers and files of no sense; test_wmt14.py has the faults of a whole run."""

import hashlib

import download
import pytest
from mirror import serve

EUROPARL = "wmt13/training-parallel-europarl-v7.tgz"


@pytest.fixture
def mirror(monkeypatch):
    monkeypatch.setattr(download, "PAUSES", (0.0, 0.0))
    with serve(pairs=60) as found:
        yield found


def test_beginning_from_elsewhere_does_not_spoil_a_sound_address(tmp_path, mirror):
    (tmp_path / "x.tgz.part").write_bytes(b"<html>log in first</html>")
    sound = mirror.files[EUROPARL]
    digest = hashlib.sha256(sound).hexdigest()
    wanted = download.Download("x.tgz", (f"{mirror.address}/{EUROPARL}",), None, digest)
    download.fetch(wanted, tmp_path, tmp_path / "checksums.json")
    assert (tmp_path / "x.tgz").read_bytes() == sound
    assert [wanted for _, wanted in mirror.requests] == ["bytes=25-", None]


def test_file_of_another_size_is_not_even_read(tmp_path, mirror):
    wanted = download.Download("x.tgz", (f"{mirror.address}/{EUROPARL}",), 100)
    with pytest.raises(download.Unavailable, match="has a file of .* bytes, not 100"):
        download.fetch(wanted, tmp_path, tmp_path / "checksums.json")
    assert len(mirror.requests) == 1 and not list(tmp_path.iterdir())


def test_server_that_is_not_there_is_one_problem_of_many(tmp_path, mirror):
    wanted = download.Download("x.tgz", ("http://127.0.0.1:9/x", f"{mirror.address}/{EUROPARL}"))
    download.fetch(wanted, tmp_path, tmp_path / "checksums.json")
    assert (tmp_path / "x.tgz").read_bytes() == mirror.files[EUROPARL]
