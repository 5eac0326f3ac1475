"""The tokens of Moses's scripts, made by sacremoses, and a faster way to the same tokens."""

import functools
import re
from collections.abc import Callable, Iterable

import regex
from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from ..errors import InputError
from .lines import LONG_WORD, clean_line

#: Words whose tokens one process keeps, unless they are longer than LONG_WORD. A corpus has
#: millions of different words; all of them would fill the memory.
CACHED_WORDS = 250_000

#: The tokenisers that text.json may name. "moses" gives the tokens of Moses's scripts as they were
#: when the paper was written. "sacremoses" protects PROTECTED words, and leaves punctuation and
#: letters to sacremoses.
MOSES, SACREMOSES = TOKENIZERS = ("moses", "sacremoses")

# The Moses tokeniser splits these words, and its detokeniser does not join them again: 15:05, km/h,
# km², A$, °C, 1939–1945. With "sacremoses" they are kept whole. Each pattern looks behind itself:
# so it is tried at the beginning of a run of letters, and not at each of its letters.
PROTECTED = (
    *(r"(?<!\d)\d+(?::\d+)+", r"(?<!\w)\w+(?:/\w+)+", r"(?<!\w)\w+[²³]"),
    *(r"(?<![A-Z])[A-Z]+[$¥]", r"°[CF]", r"(?<![\w:])[\w:]+\.?–[\w:]+"),
)
_PATTERNS = [re.compile(pattern, re.IGNORECASE) for pattern in PROTECTED]
_PROTECTED = re.compile("|".join(PROTECTED), re.IGNORECASE)
# "sacremoses" takes all of these for spaces.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# Every protected word holds one of these characters, and to look for a character is fast.
_MAY_BE_PROTECTED = re.compile("[:/²³$¥°–]")

# Two rules of Moses look beyond neighbouring words. One is about two apostrophes with a space
# between them. The other writes `...` as DOTDOTDOTMULTI for a while, so a text that holds such a
# mark of its own is special too.
_ACROSS_WORDS = re.compile(r"'\s+'|MULTI")

# The normaliser leaves a line without a match as it is, but for spaces at its ends.
_NORMALISED_DIFFERENTLY = re.compile(r"[^\w .,!?/&'-]|''|  ")


Rule = tuple[re.Pattern[str], str]
#: A substitution: the new text of the old one.
Substitute = Callable[[str], str]


class SacremosesTokenizer(MosesTokenizer):
    """sacremoses' tokeniser, which builds its sets of letters once and not for each word."""

    # Without the look behind, `DOTDOTDOT…` would be tried from each DOT to its end.
    MULTIDOT_MARKER = re.compile(r"(?<!DOT)(?:DOT)+MULTI")

    def __init__(self, lang: str) -> None:
        super().__init__(lang)
        _ensure(MosesTokenizer.MULTIDOT_MARKER.pattern == r"(?:DOT)+MULTI")
        self._lower = frozenset(self.IsLower)
        self._alpha = frozenset(self.IsAlpha)

    def islower(self, text: str) -> bool:
        return self._lower.issuperset(text)

    def isanyalpha(self, text: str) -> bool:
        return not self._alpha.isdisjoint(text)


class _Moses(SacremosesTokenizer):
    """sacremoses' tokeniser with the classes of characters that the script asks Perl for.

    sacremoses has lists of these characters from an old Unicode, without Chinese, Japanese and
    Korean letters: it splits `漢字` in an English line, and the script does not.
    """

    def __init__(self, lang: str) -> None:
        super().__init__(lang)
        for name in ("PAD_NOT_ISALNUM", *(f"COMMA_SEPARATE_{i}" for i in (1, 2, 3))):
            setattr(self, name, _with_classes(getattr(MosesTokenizer, name)))
        for name in ("ENGLISH_SPECIFIC_APOSTROPHE", "FR_IT_SPECIFIC_APOSTROPHE"):
            rules = getattr(MosesTokenizer, name)
            setattr(self, name, [_with_classes(rule) for rule in rules])
        self._lower_match = regex.compile(r"\p{Lower}+").fullmatch
        self._alpha_search = regex.compile(r"\p{Alpha}").search

    def islower(self, text: str) -> bool:
        return bool(self._lower_match(text))

    def isanyalpha(self, text: str) -> bool:
        return bool(self._alpha_search(text))


def _with_classes(rule: Rule) -> Rule:
    """Return a rule of sacremoses with the names of classes in the place of their characters."""
    pattern, by = rule[0].pattern, rule[1]
    before = pattern
    for name in ("Alnum", "Alpha", "N"):
        pattern = pattern.replace(getattr(MosesTokenizer, f"Is{name}"), rf"\p{{{name}}}")
    _ensure(pattern != before and pattern.isascii())
    return regex.compile(pattern), by


def _ensure(found: bool) -> None:
    """Raise InputError unless the rules of sacremoses that are replaced were found."""
    if not found:
        raise InputError(
            "the rules of this version of sacremoses are others than this program "
            "knows: pip install 'sacremoses>=0.2,<0.3'"
        )


def _normalizer(lang: str, kind: str) -> list[Substitute]:
    """Return the steps of the punctuation normaliser of one language.

    Four things differ in Moses's script from sacremoses: the digits and spaces are those of ASCII;
    `‘`, `‚` and `’` become `"`, unless they stand between letters; French quotes keep their space;
    and the line has its end, so that `."` becomes `".` there too.
    """
    _ensure(_DOTS in dict(MosesPunctNormalizer.DE_ES_FR_QUOTATION_FOLLOWED_BY_COMMA))
    if kind == SACREMOSES:
        return [_step(pattern, by) for pattern, by in MosesPunctNormalizer(lang).substitutions]
    changed = {"‘": '"', "‚": '"'}
    rules = MosesPunctNormalizer(lang, perl_parity=True).substitutions
    _ensure(changed.keys() <= dict(rules).keys() and dict(rules).get("’") == '"')
    steps = [_step(pattern, changed.get(pattern, by), re.ASCII) for pattern, by in rules]
    return [lambda text: f"{text}\n", *steps]


_DOTS = r'(\.+)"(\s*[^<])'


def _step(pattern: str, by: str, flags: int = 0) -> Substitute:
    r"""Return the substitution of a rule of sacremoses.

    The rule _DOTS would try a run of dots from each dot to its end. Here a match is the whole run,
    which stays if no quote follows.
    """
    if pattern == _DOTS:
        runs = re.compile(r'(\.+)(?:"(\s*[^<]))?', flags)
        return lambda text: runs.sub(lambda m: f'"{m[1]}{m[2]}' if m[2] else m[0], text)
    return functools.partial(re.compile(pattern, flags).sub, by)


class Tokenizer:
    """The Moses tokeniser of one language, without XML escapes. `kind` is one of TOKENIZERS.

    Moses runs about thirty regular expressions over a line. But the tokens of a word depend on
    little more than the word:

    - `(well-known)` gives `(`, `well-known`, `)` in every line: the word alone decides.
    - `Mr.` keeps its full stop, and `end.` loses it. For a word with a full stop, a comma or an
      apostrophe two more things decide: whether it is the first word of the line, and how the next
      word begins (`dog. and` keeps the full stop, `dog. And` loses it).

    So this class splits plain words itself, and asks sacremoses about each of the others once.
    """

    def __init__(self, lang: str, normalize_punctuation: bool = False, kind: str = MOSES) -> None:
        self._protects = kind == SACREMOSES
        self._moses = (SacremosesTokenizer if self._protects else _Moses)(lang)
        self._detokenizer = MosesDetokenizer(lang)
        self._normalize = _normalizer(lang, kind) if normalize_punctuation else []
        self._prefixes = {*self._moses.NONBREAKING_PREFIXES, *self._moses.NUMERIC_ONLY_PREFIXES}
        self._plain = functools.lru_cache(CACHED_WORDS)(self._split_plain)
        self._in_context = functools.lru_cache(CACHED_WORDS)(self._split_in_context)

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of one raw line; no token holds white space."""
        if self._protects:
            text = self._normalized(_CONTROL.sub(" ", text))
        else:  # in the order of Moses's scripts: the normaliser deletes a carriage return
            text = clean_line(self._normalized(text))
        words, protected = text.split(), -1  # -1: no word is protected
        if self._protects and _MAY_BE_PROTECTED.search(text):
            matches = [
                i
                for i, word in enumerate(words)
                for pattern in _PATTERNS
                for _ in pattern.finditer(word)
            ]
            if len(matches) > 1:  # Moses protects the longest match of the whole line first
                return self._whole(text)
            protected = matches[0] if matches else -1
        if _ACROSS_WORDS.search(text):
            return self._whole(text)
        tokens: list[str] = []
        for i, word in enumerate(words):
            long = len(word) > LONG_WORD
            pieces = None
            if i != protected:
                pieces = self._split_plain(word) if long else self._plain(word)
            if pieces is None:
                next_word = "" if i + 1 == len(words) else self._stand_in(words[i + 1])
                split = self._split_in_context if long else self._in_context
                split = self._between if i == protected else split
                pieces = split(word, i == 0, next_word)
            tokens += pieces
        return tokens

    def detokenize(self, tokens: Iterable[str]) -> str:
        """Return the raw line of the tokens."""
        return self._detokenizer.detokenize(list(tokens), unescape=False)

    def _normalized(self, text: str) -> str:
        """Return the text after the punctuation normaliser, if there is one."""
        if self._normalize and _NORMALISED_DIFFERENTLY.search(text):
            for substitute in self._normalize:
                text = substitute(text)
        return text

    def _whole(self, text: str) -> list[str]:
        """Return the tokens of the text as sacremoses splits it."""
        split = functools.partial(
            self._moses.tokenize, text, aggressive_dash_splits=False, escape=False
        )
        try:
            protects = self._protects and _PROTECTED.search(text)
            return split(protected_patterns=PROTECTED if protects else None)
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
        if not (self._moses.islower(start) or "0" <= start <= "9"):
            return "A"
        if self._protects and _PROTECTED.match(word):
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
        if end in ".," and (pieces := stem and self._split_plain(stem)):
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
