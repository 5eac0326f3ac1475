"""The Moses tokeniser (sacremoses), and a way to the same tokens in a fraction of its time."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from .lines import clean_line

#: What a process remembers of words; a corpus of millions of types must not fill the memory.
CACHED_WORDS = 250_000

# What the Moses tokeniser splits and its detokeniser does not join again: 15:05, km/h, km², A$,
# °C, 1939–1945.
PROTECTED = (
    *(r"\d+(?::\d+)+", r"\w+(?:/\w+)+", r"\w+[²³]", r"[A-Z]+[$¥]", r"°[CF]"),
    r"[\w:]+\.?–[\w:]+",
)
_PATTERNS = [re.compile(pattern, re.IGNORECASE) for pattern in PROTECTED]
_PROTECTED = re.compile("|".join(PROTECTED), re.IGNORECASE)
_MAY_BE_PROTECTED = re.compile("[:/²³$¥°–]")  # far cheaper to look for

# Two apostrophes with a space between them are all that Moses does across more than the words
# that touch: its rules for the first one use up the space. And MULTI is in its own marks.
_ACROSS_WORDS = re.compile(r"'\s+'|MULTI")

# A line without a match is one that no rule of the normaliser changes, but for the spaces around.
_NORMALISED_DIFFERENTLY = re.compile(r"[^\w .,!?/&'-]|''|  ")


class _Moses(MosesTokenizer):
    """sacremoses' tokeniser, without making the set of all letters for every word it looks at."""

    def __init__(self, lang: str) -> None:
        super().__init__(lang)
        self._lower = frozenset(self.IsLower)
        self._alpha = frozenset(self.IsAlpha)

    def islower(self, text: str) -> bool:
        return self._lower.issuperset(text)

    def isanyalpha(self, text: str) -> bool:
        return not self._alpha.isdisjoint(text)


class Tokenizer:
    """The Moses tokeniser of one language, without XML escapes.

    Moses looks at a line with some thirty regular expressions, yet what becomes of a word between
    two spaces depends on it alone, or where it holds a full stop, comma or apostrophe, on whether
    it is the first and on what the next one begins with. So plain words are not handed to Moses,
    and most decisions about the others are remembered.
    """

    def __init__(self, lang: str, normalize_punctuation: bool = False) -> None:
        self._moses = _Moses(lang)
        self._detokenizer = MosesDetokenizer(lang)
        rules = MosesPunctNormalizer(lang).substitutions if normalize_punctuation else []
        self._normalize = [(re.compile(pattern).sub, by) for pattern, by in rules]
        self._prefixes = {*self._moses.NONBREAKING_PREFIXES, *self._moses.NUMERIC_ONLY_PREFIXES}
        self._plain = functools.lru_cache(CACHED_WORDS)(self._split_plain)
        self._in_context = functools.lru_cache(CACHED_WORDS)(self._split_in_context)

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of one raw line; none of them holds white space."""
        text = clean_line(text)
        if self._normalize and _NORMALISED_DIFFERENTLY.search(text):
            for substitute, by in self._normalize:
                text = substitute(by, text)
        protected = -1
        words = text.split()
        if _MAY_BE_PROTECTED.search(text):
            found = [i for i, word in enumerate(words)
                     for pattern in _PATTERNS for _ in pattern.finditer(word)]  # fmt: skip
            if len(found) > 1:  # the longest comes first in the whole line
                return self._whole(text)
            protected = found[0] if found else -1
        if _ACROSS_WORDS.search(text):
            return self._whole(text)
        tokens: list[str] = []
        for i, word in enumerate(words):
            split = None if i == protected else self._plain(word)
            if split is None:
                follows = "" if i + 1 == len(words) else self._stand_in(words[i + 1])
                rule = self._between if i == protected else self._in_context
                split = rule(word, i == 0, follows)
            tokens += split
        return tokens

    def detokenize(self, tokens: Iterable[str]) -> str:
        """Return the raw line that the tokens stand for."""
        return self._detokenizer.detokenize(list(tokens), unescape=False)

    def _whole(self, text: str) -> list[str]:
        """The tokens of `text`, all by sacremoses."""
        split = functools.partial(
            self._moses.tokenize, text, aggressive_dash_splits=False, escape=False
        )
        try:
            return split(protected_patterns=PROTECTED if _PROTECTED.search(text) else None)
        except ValueError:  # sacremoses protects up to 1,000 tokens of a line
            return split()

    def _split_plain(self, word: str) -> list[str] | None:
        """The tokens of a word to which the words around it do not matter; None for others."""
        if "." in word or "," in word or "'" in word:
            return None
        spaced, padding = self._moses.PAD_NOT_ISALNUM  # the only rule left
        return spaced.sub(padding, word).split()

    def _stand_in(self, word: str) -> str:
        """A word that has on a full stop before it the effect of `word`."""
        start = word[0]
        if not (self._moses.islower(start) or "0" <= start <= "9") or _PROTECTED.match(word):
            return "A"
        return "0" if start <= "9" else "a"

    def _split_in_context(self, word: str, first: bool, follows: str) -> list[str]:
        """The tokens of a word with a full stop, comma or apostrophe, `follows` coming next."""
        stem, end = word[:-1], word[-1]
        if end in ".," and (split := stem and self._plain(stem)):
            if end == "," or self._moses.PAD_NOT_ISALNUM[0].match(stem[-1]):
                return [*split, end]
            if split[-1] not in self._prefixes:
                return [*split[:-1], split[-1] + end] if follows == "a" else [*split, end]
        return self._between(word, first, follows)

    def _between(self, word: str, first: bool, follows: str) -> list[str]:
        """The tokens of a word by sacremoses: the first in the line or not, and before `follows`,
        which stands for the next word (empty for none)."""
        tokens = self._whole(f"{'' if first else 'a '}{word}{' ' if follows else ''}{follows}")
        return tokens[0 if first else 1 : -1 if follows else None]
