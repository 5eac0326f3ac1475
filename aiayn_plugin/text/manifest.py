"""`checksums.json`: size and SHA-256 of each file of a data directory or bundle."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError
from .dictionary import read_dictionary
from .lines import MAX_SETTINGS_FILE, read_data_file

MANIFEST = "checksums.json"
FORMAT_VERSION = 1
_ADVICE = f"copy the file or prepare the data again; after an intended change, delete {MANIFEST}"


class Checksum(NamedTuple):
    """The recorded state of a file."""

    size: int  # in bytes
    sha256: str  # hexadecimal


def hash_file(
    path: Path, algorithm: str = "sha256", progress: Callable[[int], object] = lambda size: None
) -> str:
    """Return the checksum of a file. `progress` is called with the size of each chunk read."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
            progress(len(chunk))
    return digest.hexdigest()


def write_manifest(directory: Path, names: Iterable[str]) -> None:
    """Write the manifest of these files of a directory. Call it after the files are complete."""
    files = {
        name: {"bytes": (directory / name).stat().st_size, "sha256": hash_file(directory / name)}
        for name in sorted(names)
    }
    content = json.dumps({"format": FORMAT_VERSION, "files": files}, indent=2, ensure_ascii=False)
    (directory / MANIFEST).write_text(content + "\n", "utf-8")


def read_manifest(directory: Path) -> dict[str, Checksum]:
    """Return the checksum of each file by name; empty if the directory has no manifest.

    Raises InputError if the manifest is malformed or cannot be read.
    """
    path = directory / MANIFEST
    try:
        content: Any = json.loads(read_data_file(path, MAX_SETTINGS_FILE))
        if content["format"] != FORMAT_VERSION:
            raise ValueError
        return {name: _parse_entry(name, **entry) for name, entry in content["files"].items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError(
            f"{path}: not a list of checksums of format {FORMAT_VERSION}; prepare the data again, "
            "or delete this file to skip the check"
        ) from None


def _parse_entry(name: str, bytes: int, sha256: str) -> Checksum:
    """Return a checksum. Raises ValueError if the name might point outside the directory."""
    if not re.fullmatch(r"[\w-][\w.-]*", name):
        raise ValueError
    if type(bytes) is not int or not re.fullmatch("[0-9a-f]{64}", sha256):
        raise ValueError
    return Checksum(bytes, sha256)


def describe_change(
    path: Path,
    expected: Checksum,
    contents: bool,
    progress: Callable[[int], object] = lambda size: None,
) -> str | None:
    """Return how a file differs from its checksum, or None if it does not.

    With `contents`, the file is read, as by `hash_file`; otherwise only its size is compared.
    """
    try:
        size = path.stat().st_size
        if not path.is_file():
            return f"{path} is not a regular file"
        if size != expected.size:
            return f"{path} has changed: its size is {size:,} bytes, not {expected.size:,}"
        if contents and hash_file(path, progress=progress) != expected.sha256:
            return f"{path} has changed: its checksum is different"
    except FileNotFoundError:
        return f"{path} is missing, but listed in {MANIFEST}"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    return None


def verify_files(directory: Path, names: Iterable[str], contents: bool) -> None:
    """Raise InputError if one of these files differs from its checksum in the manifest."""
    manifest = read_manifest(directory)
    for name in names:
        if name in manifest:
            if change := describe_change(directory / name, manifest[name], contents):
                raise InputError(f"{change}; {_ADVICE}")


def read_verified_dictionary(path: Path) -> list[str]:
    """Return the words of a dictionary file, in the order of their token IDs.

    Raises InputError if the file is missing, changed or malformed.
    """
    verify_files(path.parent, [path.name], contents=True)
    return read_dictionary(path)
