"""Members of archives: only the wanted ones, and never written to a path that an archive names."""

import gzip
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from aiayn_plugin.errors import InputError

_SEGMENT = re.compile(rb"<seg\b[^>]*>(.*?)</seg>", re.IGNORECASE)


class BrokenArchive(InputError):
    """An archive that ends too early, or a file that is no archive."""


def extract(archive: Path, members: dict[str, Path]) -> None:
    """Write each wanted member of a tar, packed or not, to its path.

    `members` gives the path for each name in the archive. A member whose name ends in .gz is
    unpacked. Of a member whose name ends in .sgm or .sgm.gz only the text of the segments is
    written, one segment a line.

    Raises BrokenArchive if the archive is broken, InputError if a member is missing or is not a
    plain file, and OSError if a file cannot be read or written.
    """
    try:
        wanted = dict(members)
        with tarfile.open(archive, "r|*") as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                if name not in wanted:
                    continue
                if not member.isreg() or member.issparse():
                    raise InputError(f"{archive}: {name} is a link or the like, not a file")
                content = tar.extractfile(member)
                assert content is not None
                _write(content, name, wanted.pop(name))
                if not wanted:
                    return
    except InputError:
        raise
    # tarfile raises the last four errors at a header without meaning.
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, TypeError,
            IndexError, OverflowError) as error:  # fmt: skip
        raise BrokenArchive(f"{archive}: broken or cut short ({error})") from None
    raise InputError(f"{archive}: holds no {', '.join(wanted)}")


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
    """Yield the text of each <seg> of an SGML file of WMT, with single spaces between the words.

    Entities such as &amp; stay, as they do in the references of sacreBLEU.

    Raises InputError if a segment does not end on its line.
    """
    for number, line in enumerate(lines, start=1):
        texts = _SEGMENT.findall(line)
        if len(texts) != line.lower().count(b"<seg"):
            raise InputError(f"line {number} holds a segment that does not end there")
        yield from (b" ".join(text.split()) for text in texts)
