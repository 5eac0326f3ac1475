"""`checksums.json`: the size and the SHA-256 of each file that a program put into a directory."""

import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError
from .dictionary import read_dictionary, rising_line

logger = logging.getLogger(__name__)

MANIFEST = "checksums.json"
FORMAT_VERSION = 1
#: Bytes of the largest file that is read. A line of it has about 120.
LIMIT = 1 << 20
ADVICE = (
    f"get the file anew or prepare the data anew; if it was changed on purpose, delete {MANIFEST}"
)


class Checksum(NamedTuple):
    """What a file must be."""

    size: int  # in bytes
    sha256: str  # in hexadecimal


def _nothing(size: int) -> None:
    pass


def sha256(path: Path, progress: Callable[[int], object] = _nothing) -> str:
    """Return the SHA-256 of a file of any size. progress gets the bytes of each part."""
    whole = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            whole.update(part)
            progress(len(part))
    return whole.hexdigest()


def write_manifest(directory: Path, names: Iterable[str]) -> None:
    """Write the manifest of these files of a directory, which has to be the last one written."""
    files = {
        name: {"bytes": (directory / name).stat().st_size, "sha256": sha256(directory / name)}
        for name in sorted(names)
    }
    content = json.dumps({"format": FORMAT_VERSION, "files": files}, indent=2, ensure_ascii=False)
    (directory / MANIFEST).write_text(content + "\n", "utf-8")


def read_manifest(directory: Path) -> dict[str, Checksum]:
    """Return the checksum of each file, under its name; nothing if there is no manifest.

    Raises InputError if the manifest is broken or cannot be read.
    """
    path = directory / MANIFEST
    try:
        with open(path, "rb") as file:
            text = file.read(LIMIT + 1)
        content: Any = json.loads(text) if len(text) <= LIMIT else None
        if content["format"] != FORMAT_VERSION:
            raise ValueError
        return {_plain(name): _checksum(**entry) for name, entry in content["files"].items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError(
            f"{path}: no list of checksums that this version can read; prepare the "
            "data anew, or delete this file to do without"
        ) from None


def _plain(name: str) -> str:
    """Return a file's name. The directory may come from anywhere: no name may lead out of it."""
    if not re.fullmatch(r"[\w-][\w.-]*", name):
        raise ValueError
    return name


def _checksum(bytes: int, sha256: str) -> Checksum:
    if type(bytes) is not int or not re.fullmatch("[0-9a-f]{64}", sha256):
        raise ValueError
    return Checksum(bytes, sha256)


def fault(
    path: Path, expected: Checksum, whole: bool, progress: Callable[[int], object] = _nothing
) -> str | None:
    """Return what is wrong with a file, None if nothing is.

    whole: read the file, as sha256 does; otherwise only its size is compared.
    """
    try:
        size = path.stat().st_size
        if size != expected.size:
            return f"{path} has {size:,} bytes, and had {expected.size:,} when it was made"
        if whole and sha256(path, progress) != expected.sha256:
            return f"{path} is not as it was made: its bytes are others"
    except FileNotFoundError:
        return f"{path} is missing, and {MANIFEST} lists it"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    return None


def verify(
    directory: Path, manifest: Mapping[str, Checksum], names: Iterable[str], whole: bool
) -> None:
    """Raise InputError if one of the files is not as the manifest says; it need not list it."""
    for name in names:
        if name in manifest and (wrong := fault(directory / name, manifest[name], whole)):
            raise InputError(f"{wrong}; {ADVICE}")


def checked_dictionary(path: Path) -> list[tuple[str, int]]:
    """Return the words of a dictionary file with their counts, as read_dictionary does.

    Warn if nothing tells whether its lines are in their order, and they do not look like it. Raises
    InputError if the file is missing, changed or broken.
    """
    manifest = read_manifest(path.parent)
    verify(path.parent, manifest, [path.name], whole=True)
    entries = read_dictionary(path)
    line = rising_line(entries)
    if line and path.name not in manifest:
        logger.warning(
            "%s, line %d: more frequent than the word before; if the lines had another order when "
            "the data was made, all words are others now",
            path,
            line,
        )
    return entries
