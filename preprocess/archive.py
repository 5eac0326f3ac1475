"""Members of archives: only those that are wanted, and never to a path that an archive names."""

from __future__ import annotations

import gzip
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from aiayn_plugin.errors import TextError

_SEGMENT = re.compile(rb"<seg\b[^>]*>(.*?)</seg>", re.IGNORECASE)


class Broken(TextError):
    """An archive that ends too early, or is none."""


def extract(archive: Path, members: dict[str, Path]) -> None:
    """Write each wanted member, by its name in the archive, to the path given for it.

    An archive is a tar, packed or not. A member that ends in .gz is unpacked; of one in .sgm
    (before that) only the text of the segments is written, one a line.

    Raises:
        Broken: the archive is broken.
        TextError: a member is missing, or no plain file.
        OSError: a file cannot be read or written.
    """
    try:
        wanted = dict(members)
        with tarfile.open(archive, "r|*") as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                if name not in wanted:
                    continue
                if not member.isreg() or member.issparse():
                    raise TextError(f"{archive}: {name} is a link or the like, not a file")
                content = tar.extractfile(member)
                assert content is not None
                _write(content, name, wanted.pop(name))
                if not wanted:
                    return
    except TextError:
        raise
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, TypeError,
            IndexError, OverflowError) as error:  # fmt: skip  # the last from senseless headers
        raise Broken(f"{archive}: broken or cut short ({error})") from None
    raise TextError(f"{archive}: holds no {', '.join(wanted)}")


def _write(content: IO[bytes], name: str, path: Path) -> None:
    if name.endswith(".gz"):
        content = gzip.open(content)  # type: ignore[assignment]
        name = name.removesuffix(".gz")
    with open(path, "wb") as file:
        if name.endswith(".sgm"):
            file.writelines(segment + b"\n" for segment in segments(content))
        else:
            shutil.copyfileobj(content, file, 1 << 20)


def segments(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the text of each <seg> of an SGML file of WMT, as it is but for superfluous spaces.

    Entities stay, as in the references of sacreBLEU.

    Raises:
        TextError: a segment does not end on its line.
    """
    for number, line in enumerate(lines, start=1):
        found = _SEGMENT.findall(line)
        if len(found) != line.lower().count(b"<seg"):
            raise TextError(f"line {number} holds a segment that does not end there")
        yield from (b" ".join(text.split()) for text in found)
