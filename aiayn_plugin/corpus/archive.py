"""Members of archives, extracted by tarfile's data filter, with a bound on the unpacked size."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from ..errors import InputError
from .console import progress

#: An archive of n bytes may unpack to RATIO * n + MARGIN bytes. Text unpacks to 3 to 10 times its
#: packed size, a file of zeros to 1,000 times.
RATIO = 100
MARGIN = 1 << 23
#: Bytes that are read at a time. Longer lines of SGML are split.
CHUNK = 1 << 20

_FORMATS: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
    b"]\0\0\x80": lzma.open,
}


def extract(archive: Path, members: dict[str, Path]) -> None:
    """Write each wanted member of a tar file, compressed or not, to its path.

    members: the path for each name in the archive. Members that end in .gz are decompressed. For
    .sgm and .sgm.gz members, only the text of the segments is written, one segment per line.

    Raises InputError if the archive is malformed or unpacks to too many bytes, or a member is
    missing or is not a regular file, and OSError if a file cannot be read or written.
    """
    if not hasattr(tarfile, "data_filter"):
        raise InputError(
            "this Python cannot unpack archives safely: update it (to 3.10.12, 3.11.4 or later)"
        )
    if outside := [
        name for name in members if Path(name).is_absolute() or ".." in Path(name).parts
    ]:
        raise InputError(f"{archive}: the member path {outside[0]!r} is absolute or contains ..")
    folder = next(iter(members.values())).parent
    try:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            with _open_archive(archive) as stream:
                with tarfile.open(fileobj=stream, mode="r|", bufsize=CHUNK) as tar:
                    tar.extractall(scratch, _select(tar, set(members), archive), filter="data")
            for name, path in members.items():
                try:
                    _write_text(Path(scratch, name), path, archive)
                except InputError as error:
                    raise InputError(f"{archive}: {name}: {error}") from None
    except InputError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # a disk error: errors of gzip and bz2 have no errno
        # tarfile raises nearly any exception for a malformed header.
        problem = str(error) or type(error).__name__
        raise InputError(f"{archive}: malformed or truncated ({problem})") from None


def _size_limit(archive: Path) -> int:
    return RATIO * archive.stat().st_size + MARGIN


def _refuse(archive: Path) -> InputError:
    return InputError(
        f"{archive}: refused, because it unpacks to more than {RATIO} times its size; get it from "
        "another source, or repack it with only the members that are needed"
    )


class _BoundedReader(io.RawIOBase):
    """The decompressed bytes of a file, up to a limit that depends on the size of the archive."""

    def __init__(self, file: Any, archive: Path, advance: Callable[[], object] = lambda: None):
        self.file, self.archive, self.advance = file, archive, advance
        self.left = _size_limit(archive)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.file.read(len(buffer))
        self.left -= len(data)
        if self.left < 0:
            raise _refuse(self.archive)
        buffer[: len(data)] = data
        self.advance()
        return len(data)


@contextlib.contextmanager
def _open_archive(archive: Path) -> Iterator[_BoundedReader]:
    """Yield a reader of the decompressed archive, and show how much of the archive was read."""
    size, shown = archive.stat().st_size, 0

    def advance() -> None:
        nonlocal shown
        add(packed.tell() - shown)
        shown = packed.tell()

    with open(archive, "rb") as packed, progress(f"unpacking {archive.name}", size) as add:
        start = packed.peek(6)
        openers = [opener for magic, opener in _FORMATS.items() if start.startswith(magic)]
        yield _BoundedReader(openers[0](packed) if openers else packed, archive, advance)


def _select(tar: tarfile.TarFile, wanted: set[str], archive: Path) -> Iterator[tarfile.TarInfo]:
    """Yield the wanted members, and stop reading after the last one."""
    for member in tar:
        if member.size > _size_limit(archive):  # tarfile would try to skip it all
            raise _refuse(archive)
        name = member.name.removeprefix("./")
        if name in wanted:
            if not member.isreg() or member.issparse():
                raise InputError(f"{archive}: {name} is not a regular file")
            yield member
            wanted.remove(name)
            if not wanted:
                return
    raise InputError(f"{archive} does not contain {', '.join(sorted(wanted))}")


def _write_text(member: Path, path: Path, archive: Path) -> None:
    """Write the text of an extracted member."""
    is_sgml = member.name.removesuffix(".gz").endswith(".sgm")
    if not is_sgml and member.suffix != ".gz":
        os.replace(member, path)
        return
    with open(member, "rb") as raw, open(path, "wb") as output:
        packed = gzip.open(raw) if member.suffix == ".gz" else raw
        content = io.BufferedReader(_BoundedReader(packed, archive))
        if is_sgml:
            lines = iter(lambda: content.readline(CHUNK), b"")
            output.writelines(segment + b"\n" for segment in read_segments(lines))
        else:
            shutil.copyfileobj(content, output)


def read_segments(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the text of each <seg> of a WMT SGML file, with single spaces between the words.

    Entities such as &amp; are kept, as in the references of sacreBLEU.

    Raises InputError if a segment does not end on its line.
    """
    for number, line in enumerate(lines, start=1):
        for segment in re.split(rb"(?i)<seg\b", line)[1:]:
            content = segment.partition(b">")[2]
            text, *end = re.split(rb"(?i)</seg>", content, maxsplit=1)
            if not end:
                raise InputError(f"line {number}: a <seg> element does not end on its line")
            yield b" ".join(text.split())
