"""§5.1: from tokens to subwords and back, by byte-pair encoding or word-pieces."""

import functools
import re
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from subword_nmt.apply_bpe import BPE

from ..errors import InputError
from .lines import MAX_WORD_LENGTH, read_lines

#: Words whose subwords a process caches, in about 0.25 GB, unless they exceed MAX_WORD_LENGTH.
#: Splitting a word is slow, and in a smaller cache the rare words of a large corpus evict each
#: other.
CACHED_WORDS = 1_000_000


class Subwords(Protocol):
    """Converts tokens to a line of subwords, separated by single spaces, and back."""

    def encode(self, tokens: Iterable[str]) -> str:
        """Return the subwords of the tokens."""

    def decode(self, line: str) -> list[str]:
        """Return the tokens of a line of subwords, or of a line that is already joined."""

    def continues_word(self, subword: str, previous: str) -> bool:
        """Return whether a subword belongs to the same word as the previous one."""


def _cache(split: Callable[[str], str]) -> Callable[[Iterable[str]], Iterator[str]]:
    """Return a function that splits each token of a line, with a cache."""
    cached = functools.lru_cache(CACHED_WORDS)(split)

    def split_all(tokens: Iterable[str]) -> Iterator[str]:
        tokens = list(tokens)
        long = max(map(len, tokens), default=0) > MAX_WORD_LENGTH
        return map(split if long else cached, tokens)

    return split_all


class Bpe:
    """Byte-pair encoding by subword-nmt: a subword inside a word ends in `@@` (`he@@ llo`)."""

    def __init__(self, codes: str | Path, vocabulary: Container[str] | None = None) -> None:
        """Read the file of merges.

        vocabulary: the only subwords to produce. Others are split further, as subword-nmt does, and
        an unknown character inside a word is dropped. By default all subwords are allowed.

        Raises InputError if the file is malformed, and OSError if it cannot be read.
        """
        # subword-nmt would exit the program at a malformed line.
        version, *merges = list(read_lines(codes)) or [""]
        if not version.startswith("#version: 0.2") or not merges:
            raise InputError(f"{codes}: not a file of BPE merges")
        for number, merge in enumerate(merges, start=2):
            if len(merge.split(" ")) != 2:
                raise InputError(f"{codes}, line {number}: not a pair of subwords: {merge!r}")
        with open(codes, encoding="utf-8", newline="\n") as file:
            self._bpe = BPE(file, vocab=vocabulary)
        self._vocabulary = vocabulary
        self._split_all = _cache(self._split)

    def _split(self, token: str) -> str:
        self._bpe.cache.clear()  # it would grow without limit
        # subword-nmt scans the whole word for each merge, so split an extremely long one first.
        chunks = (token[i : i + MAX_WORD_LENGTH] for i in range(0, len(token), MAX_WORD_LENGTH))
        subwords = "@@ ".join(" ".join(self._bpe.segment_tokens([chunk])) for chunk in chunks)
        if self._vocabulary is None:
            return subwords
        # Keep the last subword of each word, so that words can be counted.
        return " ".join(
            subword
            for subword in subwords.split(" ")
            if subword in self._vocabulary or not subword.endswith("@@")
        )

    def encode(self, tokens: Iterable[str]) -> str:
        """Return the subwords of the tokens, separated by single spaces."""
        return " ".join(self._split_all(tokens))

    def decode(self, line: str) -> list[str]:
        """Return the tokens of a line of subwords."""
        return re.sub(r"@@( |$)", "", line).split()

    def continues_word(self, subword: str, previous: str) -> bool:
        """Return whether a subword belongs to the same word as the previous one."""
        return previous.endswith("@@")


class WordPieces:
    """Word-pieces by sentencepiece: the first piece of a word begins with `▁` (`▁he llo`)."""

    def __init__(self, model: str | Path) -> None:
        """Read the vocabulary.

        Raises InputError if sentencepiece is not installed or the file is malformed, and OSError
        if the file cannot be read.
        """
        content = Path(model).read_bytes()
        try:
            from sentencepiece import SentencePieceProcessor
        except ImportError:
            raise InputError(f"{model} needs sentencepiece: pip install sentencepiece") from None
        try:
            self._model = SentencePieceProcessor(model_proto=content)
        except RuntimeError:
            raise InputError(f"{model}: not a model of sentencepiece") from None
        self._split_all = _cache(self._split)

    def _split(self, token: str) -> str:
        return " ".join(self._model.encode(token, out_type=str))

    def encode(self, tokens: Iterable[str]) -> str:
        """Return the subwords of the tokens, separated by single spaces."""
        # A token that consists of the mark `▁` has no word-pieces.
        return " ".join(filter(None, self._split_all(tokens)))

    def decode(self, line: str) -> list[str]:
        """Return the tokens of a line of subwords."""
        if "▁" not in line:  # already joined by fairseq's --remove-bpe
            return line.split()
        return line.replace(" ", "").replace("▁", " ").split()

    def continues_word(self, subword: str, previous: str) -> bool:
        """Return whether a subword belongs to the same word as the previous one."""
        return not subword.startswith("▁")


#: The kinds of subwords: the class that reads the file, and the name of the file.
SUBWORDS: dict[str, tuple[Callable[[Path], Subwords], str]] = {
    "bpe": (Bpe, "codes.bpe"),
    "wordpiece": (WordPieces, "wordpieces.model"),
}
