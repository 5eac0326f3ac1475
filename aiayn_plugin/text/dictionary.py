"""fairseq's dictionary file: on each line a word and its count. The line gives the word its number.

fairseq reads much that is no dictionary. Then the numbers of the data and of the model stand for
other words, and nothing tells. So the file is read here first, and strictly.
"""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from ..errors import InputError
from .lines import decode_line

#: fairseq's own entries, which no file lists.
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
#: fairseq allows a word that is there already if its line ends in this.
OVERWRITE = "#fairseq:overwrite"
# fairseq splits text at each of these, so no word of a text holds one. It splits at other spaces
# too, such as U+00A0, but vocabularies of other programs hold those.
_NO_WORD = re.compile("[ \t\r\x0b\x0c\x1c-\x1f\x85\u2028\u2029]")
_ADVICE = "take the dictionary that the data was prepared with, or prepare the data anew"


def read_dictionary(path: str | Path) -> list[tuple[str, int]]:
    """Return the words of a dictionary file in their order, each with its count.

    Ends of lines may be those of Windows, as fairseq allows. Raises InputError, with file and line,
    if the file is no dictionary or cannot be read.
    """
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"{path} is missing: give a directory that a program of preprocess/, "
            "fairseq-preprocess or aiayn bundle made"
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): {_ADVICE}") from None
    if content.startswith(b"\xef\xbb\xbf"):
        raise InputError(
            f"{path}, line 1: begins with a byte-order mark, which becomes part of "
            f"the first word; {_ADVICE}"
        )
    lines = content.removesuffix(b"\n").split(b"\n")
    if lines == [b""]:
        raise InputError(f"{path} is empty: {_ADVICE}")
    entries: list[tuple[str, int]] = []
    known = {word: "fairseq's own entries" for word in SPECIAL}
    for number, line in enumerate(lines, start=1):
        word, count, again = _read_line(decode_line(line, number, path), f"{path}, line {number}")
        if word in known and not again:
            raise InputError(
                f"{path}, line {number}: {word!r} is already in {known[word]}; {_ADVICE}"
            )
        known[word] = f"line {number}"
        entries.append((word, count))
    return entries


class Vocabulary:
    """The words of a dictionary file after fairseq's own entries, by number and by name."""

    bos, pad, eos, unk = range(len(SPECIAL))

    def __init__(self, words: Iterable[str]) -> None:
        self.symbols = [*SPECIAL, *words]
        self._numbers = {symbol: number for number, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def numbers(self, pieces: Iterable[str]) -> list[int]:
        """Return the numbers of pieces, and the end symbol's; an unknown piece has that of unk."""
        return [*(self._numbers.get(piece, self.unk) for piece in pieces), self.eos]

    def pieces(self, numbers: Iterable[int]) -> list[str]:
        """Return the pieces that numbers stand for, without those of beginning and end."""
        return [self.symbols[n] for n in numbers if n not in (self.bos, self.eos)]


def _read_line(line: str, where: str) -> tuple[str, int, bool]:
    """Return the word, the count and whether the word may be there already."""
    word, _, count = line.rstrip().rpartition(" ")
    if again := count == OVERWRITE:
        word, _, count = word.rpartition(" ")
    if not word:
        raise InputError(f"{where}: {line[:40]!r} is no word and its count; {_ADVICE}")
    if found := _NO_WORD.search(word):
        raise InputError(
            f"{where}: the word {word[:40]!r} holds U+{ord(found[0]):04X}, at which "
            f"fairseq splits text; {_ADVICE}"
        )
    try:
        return word, int(count), again
    except ValueError:
        raise InputError(
            f"{where}: {count[:40]!r} after {word[:40]!r} is no count; {_ADVICE}"
        ) from None


def words_sha256(words: Iterable[str]) -> str:
    """Return the SHA-256 of words in their order, which tells whether numbers mean the same words.

    Counts do not matter to it, nor how lines end: nothing reads numbers by them.
    """
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def rising_line(entries: list[tuple[str, int]]) -> int | None:
    """Return the first line whose count is higher than the one before, or None.

    fairseq-preprocess sorts its dictionaries, the most frequent word first.
    """
    counts = [count for _, count in entries]
    pairs = enumerate(zip(counts, counts[1:], strict=False), start=2)
    return next((line for line, (before, count) in pairs if count > before), None)
