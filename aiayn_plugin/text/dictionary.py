"""fairseq's dictionary file: one word and its count per line; the line determines the token ID.

fairseq accepts many malformed dictionaries. The same token IDs then silently mean different words
in data and model. So the file is first read here, strictly.
"""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from ..errors import InputError
from .lines import decode_line, read_data_file

#: The symbols that begin every fairseq dictionary; the file does not list them.
SPECIAL_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")
MAX_WORDS = 1_000_000
#: At the end of a line, allows a word that the dictionary already contains.
OVERWRITE = "#fairseq:overwrite"
# fairseq splits text at these characters, so no word contains one. It also splits at other spaces
# such as U+00A0, but vocabularies of other programs contain those.
_SEPARATOR = re.compile("[ \t\r\x0b\x0c\x1c-\x1f\x85\u2028\u2029]")
_ADVICE = "use the dictionary that the data was prepared with, or prepare the data again"


def read_dictionary(path: str | Path) -> list[str]:
    """Return the words of a dictionary file, in the order of their token IDs.

    Accepts CRLF line endings, as fairseq does. Raises InputError, with file and line, if the file
    is malformed or cannot be read.
    """
    try:
        content = read_data_file(path)
    except FileNotFoundError:
        raise InputError(
            f"{path} is missing: give a directory made by aiayn prepare, "
            "fairseq-preprocess or aiayn bundle"
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): {_ADVICE}") from None
    if content.startswith(b"\xef\xbb\xbf"):
        raise InputError(
            f"{path}, line 1: starts with a byte-order mark, which would become part of the first "
            f"word; {_ADVICE}"
        )
    lines = content.removesuffix(b"\n").split(b"\n")
    if lines == [b""]:
        raise InputError(f"{path} is empty: {_ADVICE}")
    if len(lines) > MAX_WORDS:
        raise InputError(f"{path} has {len(lines):,} words; the limit is {MAX_WORDS:,}")
    words: list[str] = []
    origins = dict.fromkeys(SPECIAL_SYMBOLS, "fairseq's special symbols")
    for number, line in enumerate(lines, start=1):
        where = f"{path}, line {number}"
        word, overwrites = _parse_line(decode_line(line, number, path), where)
        if word in origins and not overwrites:
            raise InputError(f"{where}: {word!r} is already in {origins[word]}; {_ADVICE}")
        origins[word] = f"line {number}"
        words.append(word)
    return words


def _parse_line(line: str, where: str) -> tuple[str, bool]:
    """Return the word, and whether it may already be in the dictionary."""
    word, _, count = line.rstrip().rpartition(" ")
    if overwrites := count == OVERWRITE:
        word, _, count = word.rpartition(" ")
    if not word:
        raise InputError(f"{where}: expected a word and its count, not {line[:40]!r}; {_ADVICE}")
    if separator := _SEPARATOR.search(word):
        raise InputError(
            f"{where}: the word {word[:40]!r} contains U+{ord(separator[0]):04X}, at which "
            f"fairseq splits text; {_ADVICE}"
        )
    try:
        int(count)
    except ValueError:
        raise InputError(
            f"{where}: {count[:40]!r} after {word[:40]!r} is not a count; {_ADVICE}"
        ) from None
    return word, overwrites


class Vocabulary:
    """fairseq's special symbols, then the words of a dictionary; the position is the token ID."""

    bos, pad, eos, unk = range(len(SPECIAL_SYMBOLS))

    def __init__(self, words: Iterable[str]) -> None:
        self.symbols = [*SPECIAL_SYMBOLS, *words]
        self._ids = {symbol: i for i, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, symbols: Iterable[str]) -> list[int]:
        """Return the token IDs of the symbols and of `</s>`; unknown symbols become `<unk>`."""
        return [*(self._ids.get(symbol, self.unk) for symbol in symbols), self.eos]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the symbols of token IDs, without `<s>` and `</s>`."""
        return [self.symbols[i] for i in ids if i not in (self.bos, self.eos)]


def hash_words(words: Iterable[str]) -> str:
    """Return the SHA-256 of words in order: equal hashes mean equal token IDs.

    Counts and line endings do not matter.
    """
    return hashlib.sha256("\n".join(words).encode()).hexdigest()
