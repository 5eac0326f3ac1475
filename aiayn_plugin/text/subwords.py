"""§5.1: from tokens to subwords and back, by byte-pair encoding or wordpieces."""

import functools
import re
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable
from io import BytesIO, StringIO
from pathlib import Path
from typing import ClassVar

from subword_nmt.apply_bpe import BPE

from ..errors import InputError
from .lines import MAX_WORD_LENGTH, decode_lines, read_data_file

#: Words whose subwords a process caches, in about 0.25 GB, unless they exceed MAX_CACHED_LENGTH.
#: Splitting a word is slow, and in a smaller cache the rare words of a large corpus evict each
#: other.
CACHED_WORDS = 1_000_000
#: Maximum characters of a cached word: longer ones are rare, and a million of them would take
#: gigabytes.
MAX_CACHED_LENGTH = 50


class Subwords(ABC):
    """Converts tokens to a line of subwords, separated by single spaces, and back."""

    #: The name of the model's file in a data directory.
    file_name: ClassVar[str]

    def __init__(self) -> None:
        self._split_cached = functools.lru_cache(CACHED_WORDS)(self._split)

    def encode(self, tokens: Iterable[str]) -> str:
        """Return the subwords of the tokens, separated by single spaces."""
        split = (
            (self._split if len(token) > MAX_CACHED_LENGTH else self._split_cached)(token)
            for token in tokens
        )
        return " ".join(filter(None, split))  # a token of only the mark `▁` has no wordpieces

    @abstractmethod
    def _split(self, token: str) -> str:
        """Return the subwords of a token."""

    @abstractmethod
    def decode(self, line: str) -> list[str]:
        """Return the tokens of a line of subwords, or of a line that is already joined."""

    @abstractmethod
    def continues_word(self, subword: str, previous: str) -> bool:
        """Return whether a subword belongs to the same word as the previous one."""


class Bpe(Subwords):
    """Byte-pair encoding by subword-nmt: a subword inside a word ends in `@@` (`he@@ llo`)."""

    file_name = "codes.bpe"

    def __init__(self, codes: str | Path, vocabulary: Container[str] | None = None) -> None:
        """Read the file of merges.

        vocabulary: the only subwords to produce. Others are split further, as subword-nmt does, and
        an unknown character inside a word is dropped. By default all subwords are allowed.

        Raises InputError if the file is malformed, and OSError if it cannot be read.
        """
        # subword-nmt would exit the program at a malformed line.
        content = read_data_file(codes)
        version, *merges = list(decode_lines(BytesIO(content), codes)) or [""]
        if version.strip() != "#version: 0.2" or not merges:
            raise InputError(f"{codes}: not a file of BPE merges")
        for number, merge in enumerate(merges, start=2):
            if len(merge.strip("\r\n ").split(" ")) != 2:  # as subword-nmt reads it
                raise InputError(f"{codes}, line {number}: not a pair of subwords: {merge!r}")
        self._bpe = BPE(StringIO(content.decode("utf-8-sig"), newline="\n"), vocab=vocabulary)
        self._vocabulary = vocabulary
        super().__init__()

    @property
    def merges(self) -> list[tuple[str, str]]:
        """The pairs of symbols to merge, in order; `</w>` marks the end of a word."""
        ranks = self._bpe.bpe_codes
        return sorted(ranks, key=ranks.__getitem__)

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

    def decode(self, line: str) -> list[str]:
        return re.sub(r"@@( |$)", "", line).split()

    def continues_word(self, subword: str, previous: str) -> bool:
        return previous.endswith("@@")


class WordPieces(Subwords):
    """Wordpieces by sentencepiece: the first one of a word begins with `▁` (`▁he llo`)."""

    file_name = "wordpieces.model"

    def __init__(self, model: str | Path) -> None:
        """Read the vocabulary.

        Raises InputError if sentencepiece is not installed or the file is malformed, and OSError
        if the file cannot be read.
        """
        content = read_data_file(model)
        try:
            from sentencepiece import SentencePieceProcessor
        except ImportError:
            raise InputError(f"{model} needs sentencepiece: pip install sentencepiece") from None
        try:
            self._model = SentencePieceProcessor(model_proto=content)
        except RuntimeError:
            raise InputError(f"{model}: not a sentencepiece model") from None
        super().__init__()

    def _split(self, token: str) -> str:
        return " ".join(self._model.encode(token, out_type=str))

    def decode(self, line: str) -> list[str]:
        if "▁" not in line:  # already joined by fairseq's --remove-bpe
            return line.split()
        return line.replace(" ", "").replace("▁", " ").split()

    def continues_word(self, subword: str, previous: str) -> bool:
        return not subword.startswith("▁")


#: The kinds of subwords, each built from its file.
SUBWORDS: dict[str, type[Bpe] | type[WordPieces]] = {"bpe": Bpe, "wordpiece": WordPieces}
