"""Hostile archives: one line for each, after little time, memory and disk."""

import gzip
import resource
import subprocess
import sys
import tarfile

import pytest

#: What the command may use. A gigabyte takes more memory if it is held, more disk if it is written,
#: and a petabyte more seconds of the processor.
MEMORY = DISK = 1 << 28
SECONDS = 10
COMMAND = """
import sys
from pathlib import Path
from aiayn_plugin.errors import InputError
from corpus.archive import extract
try:
    extract(Path(sys.argv[1]), {sys.argv[2]: Path(sys.argv[3])})
except InputError as error:
    sys.exit(f"error: {error}")
"""


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """Return the header of a member that claims this size."""
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(tarfile.GNU_FORMAT)


def member(name: str, content: bytes, kind: bytes = tarfile.REGTYPE) -> bytes:
    """Return a member."""
    return header(name, len(content), kind) + content + bytes(-len(content) % 512)


def gigabyte(start: bytes = b"", content: bytes = bytes(1 << 24)) -> bytes:
    """Return some bytes and a gigabyte, packed: gzip takes a row of packed files for one."""
    return gzip.compress(start) + gzip.compress(content) * ((1 << 30) // len(content))


ATTRIBUTES = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"
HOLES = member("x", ATTRIBUTES, tarfile.XHDTYPE)
HOLES += member("a", b"99999999\n" + b"1\n" * (1 << 21))
LONG_NAME, LONG_LINK = tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK
TEXT = b"x" * 1023 + b"\n"

#: The name of the wanted member, the archive, and a part of the message.
ARCHIVES = {
    "petabyte": ("a", lambda: header("x", 10**15) + b"x", "claims to end at byte 1,000,000,000"),
    "packed petabyte": ("a", lambda: gzip.compress(header("x", 10**15)), "claims to end"),
    "wanted petabyte": ("a", lambda: header("a", 10**15) + b"x", "ends within a member"),
    "negative": ("a", lambda: member("x", b"x") + header("y", -1024) * 3, "negative size"),
    "zeros": ("a", lambda: gigabyte(header("x", 1 << 30)), "claims to end"),
    "text": ("a", lambda: gigabyte(header("a", 1 << 30), TEXT * 1024), "unpacks to more"),
    "line": ("a.sgm", lambda: gigabyte(header("a.sgm", 1 << 30)), "line 1 of a.sgm has 16,777,216"),
    "nested": ("a.gz", lambda: member("a.gz", gigabyte(content=TEXT * 1024)), "100 times"),
    "nested twice": ("a.gz", lambda: gzip.compress(member("a.gz", gigabyte())), "line 1 of a has"),
    "nested line": ("a.sgm.gz", lambda: member("a.sgm.gz", gigabyte()), "line 1 of a.sgm has"),
    "long name": ("a", lambda: gigabyte(header("x", 1 << 30, LONG_NAME)), "the name or the attrib"),
    "long link": ("a", lambda: gigabyte(header("x", 1 << 30, LONG_LINK)), "the name or the attrib"),
    "attributes": ("a", lambda: gigabyte(header("x", 1 << 30, tarfile.XHDTYPE)), "the name or the"),
    "of all": ("a", lambda: gigabyte(header("x", 1 << 30, tarfile.XGLTYPE)), "the name or the"),
    "names of names": ("a", lambda: member("x", b"y", LONG_NAME) * 2000, "recursion"),
    "members": ("a", lambda: gzip.compress(header("x", 0) * 10_000), "its headers have more than"),
    "starts": (
        "a.sgm",
        lambda: member("a.sgm", b"<seg " * 200_000 + b"</seg>\n"),
        "line 1 holds a seg",
    ),
    "holes": ("a", lambda: gzip.compress(HOLES), "its headers have more than"),
}


def limit() -> None:
    """Limit this process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (DISK, DISK))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


@pytest.mark.parametrize("kind", ARCHIVES)
def test_hostile_archive_gives_one_line(tmp_path, repo, kind):
    wanted, make, message = ARCHIVES[kind]
    path = tmp_path / "x.tar"
    path.write_bytes(make())
    command = [sys.executable, "-c", COMMAND, path, wanted, tmp_path / "out"]
    env = {"PYTHONPATH": f"{repo / 'preprocess'}:{repo}"}
    done = subprocess.run(command, env=env, preexec_fn=limit, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    *progress, line = done.stderr.splitlines()
    assert ("get it from elsewhere, or pack it anew" in line) == ("refused" in line)
    assert line.startswith(f"error: {path}: ") and message in line, done.stderr
    assert all(shown.endswith("MB unpacked") for shown in progress)
