"""Archives: only the wanted members, nothing outside the directory, and bounded resources."""

import gzip
import io
import random
import resource
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from mirror import content

from aiayn_plugin.corpus.archive import extract, read_segments
from aiayn_plugin.errors import InputError


def write_tar(path, *members):
    """Write an archive. A member is (name, content) or, for a link, (name, type, target)."""
    with tarfile.open(path, "w:gz") as file:
        for name, *details in members:
            member = tarfile.TarInfo(name)
            member.mode = 0o7777
            if len(details) == 1:
                member.size = len(details[0])
                file.addfile(member, io.BytesIO(details[0]))
            else:
                member.type, member.linkname = details
                file.addfile(member)
    return path


def test_unwanted_members_are_not_written(tmp_path):
    archive = write_tar(
        tmp_path / "a.tgz",
        ("../evil", b"x"),
        (str(tmp_path / "evil"), b"x"),
        ("link", tarfile.SYMTYPE, ".."),
        ("link/evil", b"x"),
        ("./good", b"text\n"),
    )
    (tmp_path / "out").mkdir()
    extract(archive, {"good": tmp_path / "out" / "en"})
    assert content(tmp_path) == {Path("a.tgz"): archive.read_bytes(), Path("out/en"): b"text\n"}
    assert (tmp_path / "out" / "en").stat().st_mode & 0o7022 == 0, "neither setuid nor writable"


@pytest.mark.parametrize("name", ["../evil", "/evil"])
def test_wanted_member_cannot_leave_the_directory(tmp_path, name):
    archive = write_tar(tmp_path / "a.tgz", (name, b"x"))
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match="the member path .* is absolute or contains"):
        extract(archive, {name: tmp_path / "out" / "en"})
    assert content(tmp_path).keys() == {Path("a.tgz")} and not Path("/evil").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE])
def test_wanted_member_must_be_a_regular_file(tmp_path, kind):
    archive = write_tar(tmp_path / "a.tgz", ("good", kind, "/etc/passwd"))
    with pytest.raises(InputError, match="good is not a regular file"):
        extract(archive, {"good": tmp_path / "en"})
    assert not (tmp_path / "en").exists()


def test_incomplete_archives_are_reported(tmp_path):
    archive = write_tar(tmp_path / "a.tgz", ("good", random.Random(0).randbytes(100_000)))
    with pytest.raises(InputError, match=rf"{archive} does not contain other"):
        extract(archive, {"other": tmp_path / "en"})
    for size in (0, 3, 5, 50_000):
        short = tmp_path / "b.tgz"
        short.write_bytes(archive.read_bytes()[:size])
        with pytest.raises(InputError, match="malformed or truncated"):
            extract(short, {"good": tmp_path / "en"})
    assert {path.name for path in tmp_path.iterdir()} == {"a.tgz", "b.tgz"}


def test_segments_are_the_text_without_markup():
    lines = [b"<refset>\n", b'<SEG id="1"> a  &amp; b </seg> <seg id=2></seg>\n', b"</refset>\n"]
    assert list(read_segments(lines)) == [b"a &amp; b", b""]
    with pytest.raises(InputError, match="line 2"):
        list(read_segments([b"<doc>\n", b'<seg id="1">a\n', b"</seg>\n"]))


# ---- Hostile archives

#: The resources of the command. A gigabyte exceeds the memory if it is held, and the disk space if
#: it is written; a petabyte exceeds the CPU time.
MEMORY, DISK, SECONDS = 1 << 29, 1 << 28, 10
COMMAND = """
import sys
from pathlib import Path
from aiayn_plugin.errors import InputError
from aiayn_plugin.corpus.archive import extract
try:
    extract(Path(sys.argv[1]), {sys.argv[2]: Path(sys.argv[3])})
except InputError as error:
    sys.exit(f"error: {error}")
"""


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """Return the header of a member of this size."""
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(tarfile.GNU_FORMAT)


def member(name: str, content: bytes, kind: bytes = tarfile.REGTYPE) -> bytes:
    """Return a member."""
    return header(name, len(content), kind) + content + bytes(-len(content) % 512)


def gigabyte(start: bytes = b"") -> bytes:
    """Return `start` and a gigabyte, compressed: gzip accepts concatenated files."""
    return gzip.compress(start) + gzip.compress(bytes(1 << 24)) * 64


SPARSE = member("x", b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n", tarfile.XHDTYPE)
SPARSE += member("a", b"99999999\n" + b"1\n" * (1 << 18))
REFUSED, BROKEN = "refused, because it unpacks to more than 100 times", "malformed or truncated"
#: The name of the wanted member, the archive, and part of the message.
HOSTILE = {
    "petabyte": ("a", lambda: header("x", 10**15) + b"x", REFUSED),
    "wanted petabyte": ("a", lambda: header("a", 10**15) + b"x", REFUSED),
    "negative size": ("a", lambda: member("x", b"x") + header("y", -1024) * 3, ""),
    "nested twice": ("a.gz", lambda: gzip.compress(member("a.gz", gigabyte())), REFUSED),
    "nested SGML": ("a.sgm.gz", lambda: member("a.sgm.gz", gigabyte()), REFUSED),
    "long name": ("a", lambda: gigabyte(header("x", 1 << 30, tarfile.GNUTYPE_LONGNAME)), REFUSED),
    "names of names": ("a", lambda: member("x", b"y", tarfile.GNUTYPE_LONGNAME) * 2000, BROKEN),
    "many members": ("a", lambda: gzip.compress(header("x", 0) * 32_000), REFUSED),
    "many segments": (
        "a.sgm",
        lambda: member("a.sgm", b"<seg " * 200_000),
        "line 1: a <seg> element",
    ),
    "sparse file": ("a", lambda: gzip.compress(SPARSE), ""),
}


def limit_resources() -> None:
    """Limit the resources of this process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (DISK, DISK))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_archive_is_one_line_with_few_resources(tmp_path, repo, kind):
    wanted, make, message = HOSTILE[kind]
    path = tmp_path / "x.tar"
    path.write_bytes(make())
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, path, wanted, tmp_path / "out"],
        env={"PYTHONPATH": str(repo)},
        preexec_fn=limit_resources,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    *progress, line = done.stderr.splitlines()
    assert line.startswith(f"error: {path}") and message in line, done.stderr
    assert all(shown.startswith(f"unpacking {path.name}: ") for shown in progress)
