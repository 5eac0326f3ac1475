"""Ways to break prepared data."""

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

Change = Callable[[bytes], bytes]


def _line(number: int, change: Change) -> Change:
    """Return a change of one line, without its end."""

    def changed(content: bytes) -> bytes:
        lines = content.split(b"\n")
        lines[number] = change(lines[number])
        return b"\n".join(lines)

    return changed


def _in_word(text: str) -> Change:
    return _line(4, lambda line: line[:1] + text.encode() + line[1:])


def _shuffled(content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    random.Random(1).shuffle(lines)
    return b"".join(lines)


def _noise(content: bytes) -> bytes:
    return random.Random(1).randbytes(len(content))


def _at(position: int, form: str, value: int) -> Change:
    """Return a change of one number at an offset, from the end if negative."""

    def changed(content: bytes) -> bytes:
        start = position % len(content)
        number = struct.pack(form, value)
        return content[:start] + number + content[start + len(number) :]

    return changed


ALL: dict[str, Change] = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2 - 1],
    "noise": _noise,
    "zeros": lambda content: bytes(len(content)),
}
DICTIONARY: dict[str, Change] = {
    **ALL,
    "not UTF-8": _line(2, lambda line: b"\xe4" + line),
    "no count": _line(2, lambda line: line.split()[0]),
    "count no number": _line(2, lambda line: line.split()[0] + b" many"),
    "word missing": _line(2, lambda line: b" " + line.split()[1]),
    "blank line": _line(2, lambda line: b"\n" + line),
    "twice": _line(2, lambda line: line + b"\n" + line),
    "end of a line missing": lambda content: content.replace(b"\n", b" ", 1),
    "byte-order mark": lambda content: b"\xef\xbb\xbf" + content,
    **{f"U+{ord(char):04X}": _in_word(char) for char in " \r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"},
    "other order": _shuffled,
    "lines missing": lambda content: b"\n".join(content.split(b"\n")[:40]) + b"\n",
}
BIN: dict[str, Change] = {
    **ALL,
    "longer": lambda content: content + b"\2\0",
    "odd": lambda content: content[:-1],
    "token outside": _at(8, "<H", 60_000),
    "no end symbol": _at(-2, "<H", 4),
}
IDX: dict[str, Change] = {
    **ALL,
    "longer": lambda content: content + b"\0",
    "magic": _at(0, "<B", 0),
    "version": _at(9, "<Q", 2),
    "type of numbers": _at(17, "<B", 77),
    "floats": _at(17, "<B", 6),
    "count of sentences": _at(18, "<Q", 2**62),
    "no sentences": _at(18, "<Q", 0),
    "size outside": _at(26, "<i", 2**30),
    "size negative": _at(26, "<i", -3),
    "offset outside": _at(-8, "<q", 2**40),
    "offset negative": _at(-8, "<q", -8),
}


def change(how: Change, *names: str) -> Callable[[Path], None]:
    """Return a function that changes files of a data directory."""

    def spoil(data: Path) -> None:
        for name in names:
            (data / name).write_bytes(how((data / name).read_bytes()))

    return spoil


def remove(*names: str) -> Callable[[Path], None]:
    """Return a function that removes files of a data directory."""

    def spoil(data: Path) -> None:
        for name in names:
            (data / name).unlink()

    return spoil


def replace(**names: str) -> Callable[[Path], None]:
    """Return a function that overwrites a test set's file with another split's: idx="valid"."""

    def spoil(data: Path) -> None:
        for end, split in names.items():
            shutil.copy(data / f"{split}.en-de.de.{end}", data / f"test.en-de.de.{end}")

    return spoil


def _file(data: Path) -> None:
    shutil.rmtree(data)
    data.write_text("data")


def _empty(data: Path) -> None:
    shutil.rmtree(data)
    data.mkdir()


#: Ways to break a data directory whose split `test` is loaded.
DATA: dict[str, Callable[[Path], None]] = {
    "no directory": shutil.rmtree,
    "a file": _file,
    "an empty directory": _empty,
    "dict.de.txt: missing": remove("dict.de.txt"),
    **{
        f"dict.*.txt: {name}": change(DICTIONARY[name], "dict.en.txt", "dict.de.txt")
        for name in ("other order", "not UTF-8", "lines missing")
    },
    "source: missing": remove("test.en-de.en.bin", "test.en-de.en.idx"),
    "de.bin: cut": change(BIN["cut"], "test.en-de.de.bin"),
    "de.bin: token outside": change(BIN["token outside"], "test.en-de.de.bin"),
    "de.idx: missing": remove("test.en-de.de.idx"),
    "de.idx: magic": change(IDX["magic"], "test.en-de.de.idx"),
    "de.bin: of another": replace(bin="valid"),
    "de.idx: of another": replace(idx="valid"),
    "target: of another split": replace(bin="valid", idx="valid"),
}
