"""The Moses tokeniser of sacremoses, and a faster way to the same tokens."""

import functools
import re
from collections.abc import Iterable

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from .lines import clean_line

#: Words whose tokens one process keeps. A corpus has millions of different words; all of them would
#: fill the memory.
CACHED_WORDS = 250_000

# The Moses tokeniser splits these words, and its detokeniser does not join them again: 15:05, km/h,
# km², A$, °C, 1939–1945. So they are kept whole.
PROTECTED = (
    *(r"\d+(?::\d+)+", r"\w+(?:/\w+)+", r"\w+[²³]", r"[A-Z]+[$¥]", r"°[CF]"),
    r"[\w:]+\.?–[\w:]+",
)
_PATTERNS = [re.compile(pattern, re.IGNORECASE) for pattern in PROTECTED]
_PROTECTED = re.compile("|".join(PROTECTED), re.IGNORECASE)
# Every protected word holds one of these characters, and to look for a character is fast.
_MAY_BE_PROTECTED = re.compile("[:/²³$¥°–]")

# Two rules of Moses look beyond neighbouring words. One is about two apostrophes with a space
# between them. The other writes `...` as DOTDOTDOTMULTI for a while, so a text that holds such a
# mark of its own is special too.
_ACROSS_WORDS = re.compile(r"'\s+'|MULTI")

# The normaliser leaves a line without a match as it is, but for spaces at its ends.
_NORMALISED_DIFFERENTLY = re.compile(r"[^\w .,!?/&'-]|''|  ")


class _Moses(MosesTokenizer):
    """sacremoses' tokeniser, which builds its sets of letters once and not for each word."""

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

    Moses runs about thirty regular expressions over a line. But the tokens of a word depend on
    little more than the word:

    - `(well-known)` gives `(`, `well-known`, `)` in every line: the word alone decides.
    - `Mr.` keeps its full stop, and `end.` loses it. For a word with a full stop, a comma or an
      apostrophe two more things decide: whether it is the first word of the line, and how the next
      word begins (`dog. and` keeps the full stop, `dog. And` loses it).

    So this class splits plain words itself, and asks sacremoses about each of the others once.
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
        """Return the tokens of one raw line; no token holds white space."""
        text = clean_line(text)
        if self._normalize and _NORMALISED_DIFFERENTLY.search(text):
            for substitute, by in self._normalize:
                text = substitute(by, text)
        words, protected = text.split(), -1  # -1: no word is protected
        if _MAY_BE_PROTECTED.search(text):
            matches = [i for i, word in enumerate(words)
                       for pattern in _PATTERNS for _ in pattern.finditer(word)]  # fmt: skip
            if len(matches) > 1:  # Moses protects the longest match of the whole line first
                return self._whole(text)
            protected = matches[0] if matches else -1
        if _ACROSS_WORDS.search(text):
            return self._whole(text)
        tokens: list[str] = []
        for i, word in enumerate(words):
            pieces = None if i == protected else self._plain(word)
            if pieces is None:
                next_word = "" if i + 1 == len(words) else self._stand_in(words[i + 1])
                split = self._between if i == protected else self._in_context
                pieces = split(word, i == 0, next_word)
            tokens += pieces
        return tokens

    def detokenize(self, tokens: Iterable[str]) -> str:
        """Return the raw line of the tokens."""
        return self._detokenizer.detokenize(list(tokens), unescape=False)

    def _whole(self, text: str) -> list[str]:
        """Return the tokens of the text as sacremoses splits it."""
        split = functools.partial(
            self._moses.tokenize, text, aggressive_dash_splits=False, escape=False
        )
        try:
            return split(protected_patterns=PROTECTED if _PROTECTED.search(text) else None)
        except ValueError:  # sacremoses protects at most 1,000 words of a line
            return split()

    def _split_plain(self, word: str) -> list[str] | None:
        """Return the tokens of a word that needs no context, else None.

        `(well-known)` gives `(`, `well-known`, `)`. `end.`, `1,000` and `it's` give None.
        """
        if "." in word or "," in word or "'" in word:
            return None
        spaced, padding = self._moses.PAD_NOT_ISALNUM  # the only rule of Moses for such a word
        return spaced.sub(padding, word).split()

    def _stand_in(self, word: str) -> str:
        """Return the shortest word that acts on a full stop before it as `word` does.

        `and` gives `a` (a small letter), `1939` gives `0` (a digit), `And` and `(and` give `A`.
        Few stand-ins mean few different questions to sacremoses.
        """
        start = word[0]
        if not (self._moses.islower(start) or "0" <= start <= "9") or _PROTECTED.match(word):
            return "A"
        return "0" if start <= "9" else "a"

    def _split_in_context(self, word: str, first: bool, next_word: str) -> list[str]:
        """Return the tokens of a word with a full stop, a comma or an apostrophe.

        `first`: the word is the first of its line. `next_word`: what `_stand_in` gives for the word
        after it, empty at the end of the line. Four cases, by example:

        - `dog,` gives `dog`, `,`: so does every comma at the end of a word without the three.
        - `(dog).` gives `(`, `dog`, `)`, `.`: so does a full stop after punctuation.
        - `dog.` gives `dog.` before `a`, and `dog`, `.` before anything else.
        - `Mr.`, `3.5` and `it's` go to sacremoses: abbreviations, numbers, apostrophes.
        """
        stem, end = word[:-1], word[-1]
        if end in ".," and (pieces := stem and self._plain(stem)):
            if end == "," or self._moses.PAD_NOT_ISALNUM[0].match(stem[-1]):
                return [*pieces, end]
            if pieces[-1] not in self._prefixes:
                last = [pieces[-1] + end] if next_word == "a" else [pieces[-1], end]
                return [*pieces[:-1], *last]
        return self._between(word, first, next_word)

    def _between(self, word: str, first: bool, next_word: str) -> list[str]:
        """Return what sacremoses makes of the word between two stand-ins.

        `Mr.` in the middle of a line, before `A`, is split as `a Mr. A`, which gives `a`, `Mr.`,
        `A`; the tokens of the word are those between the first and the last.
        """
        before, after = "" if first else "a ", f" {next_word}" if next_word else ""
        tokens = self._whole(f"{before}{word}{after}")
        return tokens[0 if first else 1 : -1 if next_word else None]
