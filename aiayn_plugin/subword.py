"""Words to pieces of words and back: byte-pair encoding and word-pieces (§5.1)."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from subword_nmt.apply_bpe import BPE

from .errors import TextError
from .lines import read_lines

#: Words whose pieces a process remembers, about 0.25 GB: to find them takes long, and with fewer
#: the rare words of a large corpus push each other out.
CACHED_WORDS = 1_000_000


class Subword(Protocol):
    """Tokens to a line of pieces, separated by single spaces, and back."""

    def encode(self, tokens: Iterable[str]) -> str:
        """Return the pieces of the tokens."""

    def decode(self, pieces: str) -> list[str]:
        """Return the tokens that the pieces make up, or that they are if joined already."""


class Bpe:
    """Byte-pair encoding by subword-nmt: pieces that go on inside the word end in `@@`."""

    def __init__(self, codes: str | Path) -> None:
        """Read the codes.

        Raises:
            TextError: the file holds something else than merges.
            OSError: the file cannot be read.
        """
        # subword-nmt ends the whole program at a line that it does not understand.
        version, *merges = list(read_lines(codes)) or [""]
        if not version.startswith("#version: 0.2") or not merges:
            raise TextError(f"{codes}: not a file of BPE codes")
        for number, merge in enumerate(merges, start=2):
            if len(merge.split(" ")) != 2:
                raise TextError(f"{codes}, line {number}: not a pair of subwords: {merge!r}")
        with open(codes, encoding="utf-8", newline="\n") as file:
            self._bpe = BPE(file)
        self._pieces = functools.lru_cache(CACHED_WORDS)(self._split)

    def _split(self, token: str) -> str:
        self._bpe.cache.clear()  # it would grow without end
        return " ".join(self._bpe.segment_tokens([token]))

    def encode(self, tokens: Iterable[str]) -> str:
        """Return the pieces of the tokens, separated by single spaces."""
        return " ".join(map(self._pieces, tokens))

    def decode(self, pieces: str) -> list[str]:
        """Return the tokens that the pieces make up."""
        return re.sub(r"@@( |$)", "", pieces).split()


class WordPieces:
    """Word-pieces by sentencepiece: the first piece of a word begins with `▁` (U+2581)."""

    def __init__(self, model: str | Path) -> None:
        """Read the vocabulary.

        Raises:
            TextError: sentencepiece is missing, or the file holds something else.
            OSError: the file cannot be read.
        """
        content = Path(model).read_bytes()
        try:
            from sentencepiece import SentencePieceProcessor
        except ImportError:
            raise TextError(f"{model} needs sentencepiece: pip install sentencepiece") from None
        try:
            self._model = SentencePieceProcessor(model_proto=content)
        except RuntimeError:
            raise TextError(f"{model}: not a model of sentencepiece") from None
        self._pieces = functools.lru_cache(CACHED_WORDS)(self._split)

    def _split(self, token: str) -> str:
        return " ".join(self._model.encode(token, out_type=str))

    def encode(self, tokens: Iterable[str]) -> str:
        """Return the pieces of the tokens, separated by single spaces."""
        # A token of nothing but the mark has no piece of its own.
        return " ".join(filter(None, map(self._pieces, tokens)))

    def decode(self, pieces: str) -> list[str]:
        """Return the tokens that the pieces make up."""
        if "▁" not in pieces:  # words, as fairseq's --remove-bpe leaves them
            return pieces.split()
        return pieces.replace(" ", "").replace("▁", " ").split()
