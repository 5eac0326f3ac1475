"""Lines of text: only a newline ends a line, whatever other characters the text contains."""

import codecs
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from unicodedata import category

from ..errors import InputError

#: Maximum characters of a word in real text; also the limit of Moses's clean-corpus-n.perl.
MAX_WORD_LENGTH = 1_000
#: Maximum bytes of a dictionary or a subword model, and of settings.
MAX_DATA_FILE, MAX_SETTINGS_FILE = 64 << 20, 1 << 20

# Every character that some reader treats as the end of a line (str.splitlines, files in text mode)
# matches one of these two patterns. Moses's tokeniser replaces or removes the same ones.
_LINE_BREAK = re.compile("[\t-\r\x85\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f]")


def clean_line(text: str) -> str:
    """Return the text with line breaks replaced by spaces, without ASCII control characters."""
    return _CONTROL.sub("", _LINE_BREAK.sub(" ", text))


def strip_line_ends(lines: Iterable[bytes]) -> Iterator[bytes]:
    r"""Yield the lines of a file without line endings and byte-order mark.

    Only \n ends a line, so that two parallel files stay aligned whatever Unicode line breaks they
    contain. A \r before the \n is part of the ending.
    """
    mark = codecs.BOM_UTF8
    for line in lines:
        yield line.removesuffix(b"\n").removesuffix(b"\r").removeprefix(mark)
        mark = b""


def read_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file without line endings.

    Raises InputError, with file and line number, if a line is not UTF-8.
    """
    with open(path, "rb") as file:
        yield from decode_lines(file, path)


def read_data_file(path: str | Path, max_size: int = MAX_DATA_FILE) -> bytes:
    """Return the content of a file of a data directory, which may come from anywhere.

    Raises InputError for a device or a pipe, which may never end, and for more than max_size bytes.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a regular file: use an intact copy of its directory")
    if (size := path.stat().st_size) > max_size:
        raise InputError(f"{path} has {size:,} bytes; the limit is {max_size:,}")
    return path.read_bytes()


def decode_lines(lines: Iterable[bytes], name: str | Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file as `read_lines` does; `name` is the file in errors."""
    for number, line in enumerate(strip_line_ends(lines), start=1):
        yield decode_line(line, number, name)


def decode_line(line: bytes, number: int, path: str | Path) -> str:
    """Return line `number` of the file `path` as text. Raises InputError if it is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number}: not valid UTF-8 (byte 0x{line[error.start]:02x} at "
            f"position {error.start + 1}); convert the file to UTF-8, for example with iconv"
        ) from None


def same_words(a: str, b: str) -> bool:
    """Return whether two lines are equal apart from spaces, which tokens do not preserve."""
    return a.split() == b.split()


def escape_unprintable(text: str) -> str:
    """Return text with control characters and invalid characters escaped, for a terminal."""
    return "".join(c if c.isprintable() or category(c) == "Zs" else repr(c)[1:-1] for c in text)
