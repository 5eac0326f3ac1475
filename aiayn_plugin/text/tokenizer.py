"""The tokens of Moses's scripts, by sacremoses."""

import functools
import re
from collections.abc import Callable, Iterable

import regex
from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from ..errors import InputError
from .lines import clean_line
from .settings import MOSES, SACREMOSES, rules_language

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
    """The Moses tokeniser of one language, without XML escapes. `kind` is one of TOKENIZERS."""

    def __init__(self, lang: str, normalize_punctuation: bool = False, kind: str = MOSES) -> None:
        self._lang = lang = rules_language(lang)
        self._protects = kind == SACREMOSES
        self._moses = (SacremosesTokenizer if self._protects else _Moses)(lang)
        self._detokenizer = MosesDetokenizer(lang)
        self._normalizer = _build_normalizer(lang, kind) if normalize_punctuation else []

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of one raw line; no token contains white space."""
        if self._protects:
            text = self._normalize(_CONTROL.sub(" ", text))
        else:  # in the order of Moses's scripts: the normaliser deletes a carriage return
            text = clean_line(self._normalize(text))
        split = functools.partial(
            self._moses.tokenize, text, aggressive_dash_splits=False, escape=False
        )
        try:
            protects = self._protects and _PROTECTED.search(text)
            return split(protected_patterns=PROTECTED if protects else None)
        except ValueError:  # sacremoses protects at most 1,000 words of a line
            return split()

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
