"""The tokens of Moses's scripts, by sacremoses, and a faster way to compute the same tokens."""

import functools
import re
from collections.abc import Callable, Iterable

import regex
from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from ..errors import InputError
from .lines import MAX_CACHED_LENGTH, clean_line
from .settings import MOSES, SACREMOSES, rules_language

#: Words whose tokens a process caches, unless they exceed MAX_CACHED_LENGTH. A corpus has millions
#: of different words, too many to cache all.
CACHED_WORDS = 250_000

# Words that the Moses tokeniser splits and its detokeniser does not rejoin: 15:05, km/h, km², A$,
# °C, 1939–1945. "sacremoses" keeps them whole. The lookbehinds make each pattern start at the
# beginning of a run of letters instead of at each of its letters.
PROTECTED = (
    r"(?<!\d)\d+(?::\d+)+",
    r"(?<!\w)\w+(?:/\w+)+",
    r"(?<!\w)\w+[²³]",
    r"(?<![A-Z])[A-Z]+[$¥]",
    r"°[CF]",
    r"(?<![\w:])[\w:]+\.?–[\w:]+",
)
_PROTECTED = re.compile("|".join(PROTECTED), re.IGNORECASE)
# "sacremoses" treats all of these as spaces.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")

# Two rules of Moses look beyond adjacent words. One is about two apostrophes separated by a space.
# The other temporarily writes `...` as DOTDOTDOTMULTI, so text that contains MULTI is special too.
_ACROSS_WORDS = re.compile(r"'\s+'|MULTI")

# The normaliser changes only spaces at the ends of a line that does not match.
_MAY_BE_NORMALISED = re.compile(r"[^\w .,!?/&'-]|''|  ")

#: The languages of the paper's tasks.
PAPER_LANGUAGES = ("en", "de", "fr")

# Chinese and Japanese punctuation that sacremoses's detokeniser takes for foreign words.
_FULL_WIDTH = re.compile(
    "\\s*([\u00b7\u2014\u2018\u2019\u201c\u201d\u2026\u30fb"
    "\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65])\\s*"
)

# A rule of the normaliser; see _compile_rule.
_DOTS = r'(\.+)"(\s*[^<])'

Rule = tuple[re.Pattern[str], str]
#: A function from old to new text.
Substitute = Callable[[str], str]


class SacremosesTokenizer(MosesTokenizer):
    """sacremoses's tokeniser; it builds its sets of letters once instead of for each word."""

    # Without the lookbehind, `DOTDOTDOT…` would be scanned to its end from each DOT.
    MULTIDOT_MARKER = re.compile(r"(?<!DOT)(?:DOT)+MULTI")

    def __init__(self, lang: str) -> None:
        super().__init__(lang)
        _require_known_rule(MosesTokenizer.MULTIDOT_MARKER.pattern == r"(?:DOT)+MULTI")
        self._lower = frozenset(self.IsLower)
        self._alpha = frozenset(self.IsAlpha)

    def islower(self, text: str) -> bool:
        return self._lower.issuperset(text)

    def isanyalpha(self, text: str) -> bool:
        return not self._alpha.isdisjoint(text)


class _Moses(SacremosesTokenizer):
    """sacremoses's tokeniser with Unicode character classes, which the Perl script uses.

    sacremoses lists the characters of an old Unicode version, without Chinese, Japanese and Korean
    letters: it splits `漢字` in an English line; the script does not. The script also splits words
    at marks that are not letters, such as Hindi's viramas and the Persian non-joiner; this class
    does so only in the paper's languages.
    """

    def __init__(self, lang: str) -> None:
        super().__init__(lang)
        marks = "" if lang in PAPER_LANGUAGES else r"\p{M}\u200c\u200d"
        for name in ("PAD_NOT_ISALNUM", *(f"COMMA_SEPARATE_{i}" for i in (1, 2, 3))):
            setattr(self, name, _use_unicode_classes(getattr(MosesTokenizer, name), marks))
        for name in ("ENGLISH_SPECIFIC_APOSTROPHE", "FR_IT_SPECIFIC_APOSTROPHE"):
            rules = getattr(MosesTokenizer, name)
            setattr(self, name, [_use_unicode_classes(rule, marks) for rule in rules])
        self._lower_match = regex.compile(r"\p{Lower}+").fullmatch
        self._alpha_search = regex.compile(r"\p{Alpha}").search

    def islower(self, text: str) -> bool:
        return bool(self._lower_match(text))

    def isanyalpha(self, text: str) -> bool:
        return bool(self._alpha_search(text))


def _use_unicode_classes(rule: Rule, marks: str) -> Rule:
    """Return a rule of sacremoses with its lists of characters replaced by \\p{…} classes.

    marks: further characters of words.
    """
    original, replacement = rule[0].pattern, rule[1]
    pattern = original
    for name, more in (("Alnum", marks), ("Alpha", marks), ("N", "")):
        characters = getattr(MosesTokenizer, f"Is{name}")
        pattern = pattern.replace(characters, rf"\p{{{name}}}{more}")
    _require_known_rule(pattern != original and pattern.isascii())
    return regex.compile(pattern), replacement


def _require_known_rule(is_known: bool) -> None:
    """Raise InputError if a rule of sacremoses that has to be replaced has changed."""
    if not is_known:
        raise InputError(
            "this version of sacremoses has unknown rules: pip install 'sacremoses>=0.2,<0.3'"
        )


def _build_normalizer(lang: str, kind: str) -> list[Substitute]:
    """Return the steps of the punctuation normaliser of a language.

    Moses's script differs from sacremoses in four ways: only ASCII digits and spaces count; `‘`,
    `‚` and `’` become `"` unless they are between letters; French quotes keep their space; and the
    line includes its newline, so that a final `."` becomes `".`.
    """
    _require_known_rule(_DOTS in dict(MosesPunctNormalizer.DE_ES_FR_QUOTATION_FOLLOWED_BY_COMMA))
    if kind == SACREMOSES:
        return [_compile_rule(*rule) for rule in MosesPunctNormalizer(lang).substitutions]
    quotes = {"‘": '"', "‚": '"'}
    rules = MosesPunctNormalizer(lang, perl_parity=True).substitutions
    _require_known_rule(quotes.keys() <= dict(rules).keys() and dict(rules).get("’") == '"')
    steps = [
        _compile_rule(pattern, quotes.get(pattern, replacement), re.ASCII)
        for pattern, replacement in rules
    ]
    return [lambda text: f"{text}\n", *steps]


def _compile_rule(pattern: str, replacement: str, flags: int = 0) -> Substitute:
    r"""Return the substitution of a rule of sacremoses.

    The rule _DOTS would scan a run of dots to its end from each dot. Here a match is the whole run,
    which is kept if no quote follows.
    """
    if pattern == _DOTS:
        runs = re.compile(r'(\.+)(?:"(\s*[^<]))?', flags)
        return lambda text: runs.sub(lambda m: f'"{m[1]}{m[2]}' if m[2] else m[0], text)
    return functools.partial(re.compile(pattern, flags).sub, replacement)


class Tokenizer:
    """The Moses tokeniser of one language, without XML escapes. `kind` is one of TOKENIZERS.

    Moses applies about thirty regular expressions to a line. But the tokens of a word depend on
    little more than the word:

    - `(well-known)` gives `(`, `well-known`, `)` in every line: the word alone decides.
    - `Mr.` keeps its full stop, `end.` loses it. For a word with a full stop, a comma or an
      apostrophe, two more facts decide: whether it is the first word of the line, and how the next
      word begins (`dog. and` keeps the full stop, `dog. And` loses it).

    So this class splits most words itself, passes the rest to sacremoses, and caches the results.
    With the kind SACREMOSES it passes whole lines, because the longest match of a line is protected
    first.
    """

    def __init__(self, lang: str, normalize_punctuation: bool = False, kind: str = MOSES) -> None:
        self._lang = lang = rules_language(lang)
        self._protects = kind == SACREMOSES
        self._moses = (SacremosesTokenizer if self._protects else _Moses)(lang)
        self._detokenizer = MosesDetokenizer(lang)
        self._normalizer = _build_normalizer(lang, kind) if normalize_punctuation else []
        self._prefixes = {*self._moses.NONBREAKING_PREFIXES, *self._moses.NUMERIC_ONLY_PREFIXES}
        self._plain = functools.lru_cache(CACHED_WORDS)(self._split_plain)
        self._in_context = functools.lru_cache(CACHED_WORDS)(self._split_in_context)

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of one raw line; no token contains white space."""
        if self._protects:
            return self._tokenize_by_moses(self._normalize(_CONTROL.sub(" ", text)))
        # in the order of Moses's scripts: the normaliser deletes a carriage return
        text = clean_line(self._normalize(text))
        if _ACROSS_WORDS.search(text):
            return self._tokenize_by_moses(text)
        words = text.split()
        tokens: list[str] = []
        for i, word in enumerate(words):
            long = len(word) > MAX_CACHED_LENGTH
            split_word = self._split_plain(word) if long else self._plain(word)
            if split_word is None:
                next_word = "" if i + 1 == len(words) else self._representative(words[i + 1])
                split = self._split_in_context if long else self._in_context
                split_word = split(word, i == 0, next_word)
            tokens += split_word.split()
        return tokens

    def detokenize(self, tokens: Iterable[str]) -> str:
        """Return the raw line of the tokens."""
        tokens = list(tokens)
        end = len(tokens)
        while self._lang == "cs" and end and tokens[end - 1] in (",", "."):
            # Whether numbers lose their space depends, by mistake, on the last tokens of the line.
            end -= 1
        try:
            text = self._detokenizer.detokenize(tokens[:end], unescape=False)
        except TypeError:  # a bug in sacremoses for Czech tokens such as e' before -
            text = " ".join(tokens[:end])
        text += "".join(tokens[end:])
        return _FULL_WIDTH.sub(r"\1", text) if self._lang in ("zh", "ja", "yue") else text

    def _normalize(self, text: str) -> str:
        """Return the text with normalised punctuation, if requested."""
        if self._normalizer and _MAY_BE_NORMALISED.search(text):
            for substitute in self._normalizer:
                text = substitute(text)
        return text

    def _tokenize_by_moses(self, text: str) -> list[str]:
        """Return the tokens of the text by sacremoses."""
        split = functools.partial(
            self._moses.tokenize, text, aggressive_dash_splits=False, escape=False
        )
        try:
            protects = self._protects and _PROTECTED.search(text)
            return split(protected_patterns=PROTECTED if protects else None)
        except ValueError:  # sacremoses protects at most 1,000 words of a line
            return split()

    def _split_plain(self, word: str) -> str | None:
        """Return the tokens of a word, separated by spaces; None if they depend on its context.

        `(well-known)` gives `( well-known )`. `end.`, `1,000` and `it's` give None. A string takes
        less memory in the cache than a list.
        """
        if "." in word or "," in word or "'" in word:
            return None
        pattern, replacement = self._moses.PAD_NOT_ISALNUM  # Moses's only rule for such a word
        return pattern.sub(replacement, word)

    def _representative(self, word: str) -> str:
        """Return the shortest word that affects a preceding full stop as `word` does.

        `and` gives `a` (a lower-case letter), `1939` gives `0` (a digit), `And` and `(and` give
        `A`. This leaves few distinct contexts to pass to sacremoses.
        """
        start = word[0]
        if not (self._moses.islower(start) or "0" <= start <= "9"):
            return "A"
        return "0" if start <= "9" else "a"

    def _split_in_context(self, word: str, first: bool, next_word: str) -> str:
        """Return the tokens of a word with a full stop, comma or apostrophe, separated by spaces.

        first: the word is the first of its line. next_word: the `_representative` of the following
        word; empty at the end of the line. Four cases, by example:

        - `dog,` gives `dog ,`, as does every final comma after a plain word.
        - `(dog).` gives `( dog ) .`, as does every full stop after punctuation.
        - `dog.` gives `dog.` before `a`, and `dog .` before anything else.
        - `Mr.`, `3.5` and `it's` go to sacremoses: abbreviations, numbers, apostrophes.
        """
        stem, end = word[:-1], word[-1]
        if end in ".," and (tokens := (self._split_plain(stem) or "").split()):
            if end == "," or self._moses.PAD_NOT_ISALNUM[0].match(stem[-1]):
                return " ".join((*tokens, end))
            if tokens[-1] not in self._prefixes:
                return " ".join(tokens) + (end if next_word == "a" else f" {end}")
        return " ".join(self._split_by_moses(word, first, next_word))

    def _split_by_moses(self, word: str, first: bool, next_word: str) -> list[str]:
        """Return the tokens of the word by sacremoses, between representatives of its neighbours.

        `Mr.` inside a line, before `A`, is split as `a Mr. A`, which gives `a`, `Mr.`, `A`; all
        tokens but the first and the last are those of the word.
        """
        before, after = "" if first else "a ", f" {next_word}" if next_word else ""
        tokens = self._tokenize_by_moses(f"{before}{word}{after}")
        return tokens[0 if first else 1 : -1 if next_word else None]
