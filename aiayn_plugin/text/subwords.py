"""§5.1: words to subwords and back, by byte-pair encoding or by word-pieces."""

import functools
import re
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from subword_nmt.apply_bpe import BPE

from ..errors import InputError
from .lines import LONG_WORD, read_lines

#: Words whose subwords one process keeps, in about 0.25 GB, unless they are longer than LONG_WORD.
#: To split a word takes long, and with a smaller cache the rare words of a large corpus push each
#: other out.
CACHED_WORDS = 1_000_000


class Subwords(Protocol):
    """Tokens to a line of subwords, separated by single spaces, and back."""

    def encode(self, tokens: Iterable[str]) -> str:
        """Return the subwords of the tokens."""

    def decode(self, line: str) -> list[str]:
        """Return the tokens of a line of subwords, or of a line that is joined already."""

    def continues(self, subword: str, before: str) -> bool:
        """Whether a subword continues the word of the one before it."""


def _remembering(split: Callable[[str], str]) -> Callable[[Iterable[str]], Iterator[str]]:
    """Return what gives the subwords of each token of a line, and remembers them."""
    remembered = functools.lru_cache(CACHED_WORDS)(split)

    def split_all(tokens: Iterable[str]) -> Iterator[str]:
        tokens = list(tokens)
        long = max(map(len, tokens), default=0) > LONG_WORD
        return map(split if long else remembered, tokens)

    return split_all


class Bpe:
    """Byte-pair encoding by subword-nmt: a subword inside a word ends in `@@` (`he@@ llo`)."""

    def __init__(self, codes: str | Path, vocabulary: Container[str] | None = None) -> None:
        """Read the file of merges.

        vocabulary: pieces that may come out; others are split further, as subword-nmt does, and an
        unknown character inside a word is left out. Without it all may.

        Raises InputError if it holds anything else, and OSError if it cannot be read.
        """
        # subword-nmt would end the whole program at a line that it does not understand.
        version, *merges = list(read_lines(codes)) or [""]
        if not version.startswith("#version: 0.2") or not merges:
            raise InputError(f"{codes}: not a file of BPE codes")
        for number, merge in enumerate(merges, start=2):
            if len(merge.split(" ")) != 2:
                raise InputError(f"{codes}, line {number}: not a pair of subwords: {merge!r}")
        with open(codes, encoding="utf-8", newline="\n") as file:
            self._bpe = BPE(file, vocab=vocabulary)
        self._vocabulary = vocabulary
        self._pieces = _remembering(self._split)

    def _split(self, token: str) -> str:
        self._bpe.cache.clear()  # it would grow without end
        # subword-nmt goes through the whole word for each of its merges. So it gets a word that no
        # one wrote in parts.
        parts = (token[i : i + LONG_WORD] for i in range(0, len(token), LONG_WORD))
        pieces = "@@ ".join(" ".join(self._bpe.segment_tokens([part])) for part in parts)
        if self._vocabulary is None:
            return pieces
        # The end of each word stays, so that words can be counted.
        return " ".join(
            piece
            for piece in pieces.split(" ")
            if piece in self._vocabulary or not piece.endswith("@@")
        )

    def encode(self, tokens: Iterable[str]) -> str:
        """Return the subwords of the tokens, separated by single spaces."""
        return " ".join(self._pieces(tokens))

    def decode(self, line: str) -> list[str]:
        """Return the tokens of a line of subwords."""
        return re.sub(r"@@( |$)", "", line).split()

    def continues(self, subword: str, before: str) -> bool:
        """Whether a subword continues the word of the one before it."""
        return before.endswith("@@")


class WordPieces:
    """Word-pieces by sentencepiece: the first piece of a word begins with `▁` (`▁he llo`)."""

    def __init__(self, model: str | Path) -> None:
        """Read the vocabulary.

        Raises InputError if sentencepiece is not installed or the file holds anything else, and
        OSError if the file cannot be read.
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
        self._pieces = _remembering(self._split)

    def _split(self, token: str) -> str:
        return " ".join(self._model.encode(token, out_type=str))

    def encode(self, tokens: Iterable[str]) -> str:
        """Return the subwords of the tokens, separated by single spaces."""
        # A token that is nothing but the mark `▁` has no piece.
        return " ".join(filter(None, self._pieces(tokens)))

    def decode(self, line: str) -> list[str]:
        """Return the tokens of a line of subwords."""
        if "▁" not in line:  # words already, as fairseq's --remove-bpe leaves them
            return line.split()
        return line.replace(" ", "").replace("▁", " ").split()

    def continues(self, subword: str, before: str) -> bool:
        """Whether a subword continues the word of the one before it."""
        return not subword.startswith("▁")


#: The kinds of subwords: the class that reads the file, and the name of the file.
SUBWORDS: dict[str, tuple[Callable[[Path], Subwords], str]] = {
    "bpe": (Bpe, "codes.bpe"),
    "wordpiece": (WordPieces, "wordpieces.model"),
}
