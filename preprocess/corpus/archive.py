"""Members of archives: only the wanted ones, and never written to a path that an archive names.

An archive is a stranger's file: a few kilobytes may claim a petabyte, or unpack to gigabytes. So
there are bounds on the bytes that are read from it, in all and at once.
"""

import contextlib
import gzip
import importlib
import io
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from aiayn_plugin.errors import InputError

from .console import progress

CHUNK = 1 << 20
#: An archive of n bytes gives at most RATIO * n + SPARE bytes. Text gives 3 to 10 times its packed
#: size, a file of zeros 1,000 times.
RATIO = 100
SPARE = 1 << 23
#: Bytes that one header may have, with a long name or attributes, and all headers of an archive.
#: tarfile holds a header in memory. Until 2024 its time grew with the square of a header's length.
HEADER = 1 << 13
HEADERS = 1 << 21
#: The same of an archive whose SHA-256 is published: 100,000 members and more.
TRUSTED_HEADERS = 1 << 26
#: Bytes of a line, which is held in memory.
LINE = 1 << 24

_MODULES = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ": "lzma", b"]\0\0\x80": "lzma"}
_SEGMENT = re.compile(rb"<seg\b[^>]*>(.*)", re.IGNORECASE)
_SEGMENT_END = re.compile(rb"</seg>", re.IGNORECASE)


class BrokenArchive(InputError):
    """An archive that ends too early, or a file that is no archive."""


class RefusedArchive(InputError):
    """An archive that passes a bound. Another download would give the same bytes."""


class _OutOfBounds(Exception):
    """More bytes than a sound archive has."""


def extract(archive: Path, members: dict[str, Path], headers: int = HEADERS) -> None:
    """Write each wanted member of a tar, packed or not, to its path.

    `members` gives the path for each name in the archive. A member whose name ends in .gz is
    unpacked. Of a member whose name ends in .sgm or .sgm.gz only the text of the segments is
    written, one segment a line. All headers together may have `headers` bytes.

    Raises BrokenArchive if the archive is broken, RefusedArchive if it passes a bound, InputError
    if a member is missing or is not a plain file, and OSError if a file cannot be read or written.
    """
    try:
        with _unpacked(archive, headers) as stream:
            _extract(stream, archive, dict(members))
    except InputError:
        raise
    except _OutOfBounds as error:
        raise RefusedArchive(
            f"{archive}: refused, because {error}; get it from elsewhere, or pack "
            "it anew with no more than the members that are wanted"
        ) from None
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the disk; those of gzip and bz2 have no number
        # tarfile raises nearly every kind of error at a header without meaning.
        problem = str(error) or type(error).__name__
        raise BrokenArchive(f"{archive}: broken or cut short ({problem})") from None


class _Stream:
    """The unpacked bytes of an archive: as much of a file as TarFile needs, forwards and bounded.

    `limit` is the number of bytes that may be read, `headers` that of the headers; `advance` is
    called after each read.
    """

    def __init__(self, file: IO[bytes], limit: int, headers: int, advance: Callable[[], object]):
        self.file, self.limit, self.advance = file, limit, advance
        self.headers, self.left = headers, headers
        self.position = 0

    def tell(self) -> int:
        return self.position

    def seek(self, position: int) -> None:
        """Pass by the rest of a member."""
        if position < self.position:
            raise ValueError("a member of negative size")
        if position > self.limit:
            raise _OutOfBounds(f"a member claims to end at byte {position:,}")
        while self.position < position:
            if not self.take(min(CHUNK, position - self.position)):
                raise EOFError("it ends within a member")

    def read(self, size: int) -> bytes:
        """Return bytes of a header: TarFile reads nothing else by itself."""
        self.left -= size
        if not 0 <= size <= HEADER:
            raise _OutOfBounds(f"the name or the attributes of a member have {size:,} bytes")
        if self.left < 0:
            raise _OutOfBounds(f"its headers have more than {self.headers:,} bytes")
        return self.take(size)

    def take(self, size: int) -> bytes:
        """Return the next bytes: `size` of them, or those before the end of the archive."""
        data = self.file.read(size)
        self.position += len(data)
        if self.position > self.limit:
            raise _OutOfBounds(f"it unpacks to more than {self.limit:,} bytes")
        self.advance()
        return data


class _Content(io.RawIOBase):
    """The content of the member at which a stream is."""

    def __init__(self, stream: _Stream, size: int) -> None:
        self.stream, self.left = stream, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
        data = self.stream.take(min(len(buffer), self.left))
        if self.left and not data:
            raise EOFError("it ends within a member")
        self.left -= len(data)
        buffer[: len(data)] = data
        return len(data)


@contextlib.contextmanager
def _unpacked(archive: Path, headers: int) -> Iterator[_Stream]:
    """Give the unpacked bytes of an archive, and show how much of it is read."""
    size, shown = archive.stat().st_size, 0

    def describe(done: int) -> str:
        return f"{archive.name}: {done / 1e6:,.1f} of {size / 1e6:,.1f} MB unpacked"

    def advance() -> None:
        nonlocal shown
        if packed.tell() > shown:
            add(packed.tell() - shown)
            shown = packed.tell()

    bar = {"desc": archive.name, "unit": "B", "unit_scale": True}
    with open(archive, "rb") as packed, progress(describe, size, **bar) as add:
        start = packed.peek(6)
        names = [name for magic, name in _MODULES.items() if start.startswith(magic)]
        file = importlib.import_module(names[0]).open(packed) if names else packed
        yield _Stream(file, RATIO * size + SPARE, headers, advance)


def _extract(stream: _Stream, archive: Path, wanted: dict[str, Path]) -> None:
    with tarfile.TarFile(fileobj=stream) as tar:  # type: ignore[arg-type]
        while member := tar.next():
            tar.pax_headers = {}  # attributes for all members, of which each would get a copy
            name = member.name.removeprefix("./")
            if name not in wanted:
                continue
            if not member.isreg() or member.issparse() or member.size < 0:
                raise InputError(f"{archive}: {name} is a link or the like, not a file")
            content = _Content(stream, member.size)
            try:
                _write(content, name, wanted.pop(name), stream.limit)
            except InputError as error:
                raise InputError(f"{archive}: {name}, {error}") from None
            if not wanted:
                return
    raise InputError(f"{archive}: holds no {', '.join(wanted)}")


def _write(content: io.RawIOBase, name: str, path: Path, limit: int) -> None:
    if name.endswith(".gz"):
        content = gzip.open(io.BufferedReader(content))  # type: ignore[assignment]
        name = name.removesuffix(".gz")
    lines = _lines(io.BufferedReader(content), name, limit)
    with open(path, "wb") as file:
        if name.endswith(".sgm"):
            file.writelines(segment + b"\n" for segment in segments(lines))
        else:
            file.writelines(lines)


def _lines(content: io.BufferedReader, name: str, limit: int) -> Iterator[bytes]:
    """Yield the lines of a member. Raises _OutOfBounds if one is too long, or all together are."""
    number = 0
    while line := content.readline(LINE):
        number += 1
        limit -= len(line)
        if len(line) == LINE:
            raise _OutOfBounds(f"line {number:,} of {name} has {LINE:,} bytes or more")
        if limit < 0:
            raise _OutOfBounds(f"{name} unpacks to more than {RATIO} times the archive's size")
        yield line


def segments(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the text of each <seg> of an SGML file of WMT, with single spaces between the words.

    Entities such as &amp; stay, as they do in the references of sacreBLEU.

    Raises InputError if a segment does not end on its line.
    """
    for number, line in enumerate(lines, start=1):
        # One expression for a whole segment would take time that grows with the line's square.
        *closed, rest = _SEGMENT_END.split(line)
        starts = [part.lower().count(b"<seg") for part in closed]
        sound = b"<seg" not in rest.lower() and max(starts, default=0) <= 1
        # A search takes time that grows with the square of the number of starts.
        texts = [
            _SEGMENT.search(part)
            for part, count in zip(closed, starts, strict=True)
            if sound and count
        ]
        if not sound or not all(texts):
            raise InputError(f"line {number} holds a segment that does not end there")
        yield from (b" ".join(text[1].split()) for text in texts if text)
