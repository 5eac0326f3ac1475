"""From raw text to subwords and back, both for preparing data and for translation."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import InputError
from .dictionary import read_dictionary
from .manifest import hash_file
from .settings import PENN, SETTINGS_FILE, TOKENIZERS, TextSettings
from .subwords import SUBWORDS, Bpe, Subwords
from .tokenizer import Tokenizer

_ADVICE = (
    "give a directory made by aiayn prepare or aiayn bundle, and copy all of its files (data of "
    "fairseq-preprocess: translate with fairseq-interactive)"
)


def load_subwords(data_dir: str | Path) -> tuple[TextSettings, Subwords]:
    """Return the settings and the subword model of a directory of prepared data.

    Raises InputError if a file is missing, or if the settings are malformed, unknown or do not
    match the subword model, and OSError if a file cannot be read.
    """
    path = Path(data_dir) / SETTINGS_FILE
    if not path.is_file():
        raise InputError(f"{path} is missing: {_ADVICE}")
    settings = TextSettings.load(path)
    if settings.tokenizer not in (*TOKENIZERS, PENN) or settings.subword not in SUBWORDS:
        kind = f"{settings.tokenizer} with {settings.subword}"
        raise InputError(f"{path}: this version does not support {kind}")
    codes = Path(data_dir) / settings.codes
    if not codes.is_file():
        raise InputError(f"{codes} is missing: {_ADVICE}")
    if hash_file(codes) != settings.codes_sha256:
        raise InputError(f"{codes} does not match {SETTINGS_FILE}: copy both from the same data")
    if settings.holds_trees:
        words = read_dictionary(Path(data_dir) / settings.dictionaries[0])
        return settings, Bpe(codes, set(words))
    return settings, SUBWORDS[settings.subword](codes)


class TextPipeline:
    """Tokeniser and subword model with the settings of one data directory."""

    def __init__(self, settings: TextSettings, subwords: Subwords) -> None:
        self.settings = settings
        self.subwords = subwords
        self._tokenizers = {
            lang: Tokenizer(lang, settings.normalize_punctuation, settings.tokenizer)
            for lang in settings.languages
        }

    @classmethod
    def load(
        cls, data_dir: str | Path, source_lang: str | None = None, target_lang: str | None = None
    ) -> "TextPipeline":
        """Return the pipeline of a directory of parallel text made by aiayn prepare.

        source_lang, target_lang: by default those of the data. Raises InputError and OSError as
        load_subwords does.
        """
        settings, subwords = load_subwords(data_dir)
        if settings.holds_trees:
            raise InputError(f"{data_dir} contains the data of a parser: use aiayn parse")
        langs = source_lang or settings.source_lang, target_lang or settings.target_lang
        return cls(replace(settings, source_lang=langs[0], target_lang=langs[1]), subwords)

    def encode(self, line: str, lang: str | None = None) -> str:
        """Return the subwords of a raw line of `lang` (default: the source language).

        Raises InputError if the data does not contain this language.
        """
        return self.subwords.encode(self.tokenize(line, lang))

    def decode(self, line: str, lang: str | None = None) -> str:
        """Return the raw text of a line of subwords in `lang` (default: the target language).

        Raises InputError if the data does not contain this language.
        """
        return self.detokenize(self.subwords.decode(line), lang)

    def tokenize(self, line: str, lang: str | None = None) -> list[str]:
        """Return the tokens of a raw line; the first step of `encode`."""
        return self._find_tokenizer(lang or self.settings.source_lang).tokenize(line)

    def detokenize(self, tokens: Iterable[str], lang: str | None = None) -> str:
        """Return the raw text of tokens; the last step of `decode`."""
        return self._find_tokenizer(lang or self.settings.target_lang).detokenize(tokens)

    def group_into_words(self, subwords: Sequence[str]) -> list[tuple[str, int]]:
        """Return each word of a sequence of subwords and its number of subwords.

        For example, `he@@ llo world` gives [("hello", 2), ("world", 1)].
        """
        groups: list[list[str]] = []
        for i, subword in enumerate(subwords):
            if i and self.subwords.continues_word(subword, subwords[i - 1]):
                groups[-1].append(subword)
            else:
                groups.append([subword])
        return [("".join(self.subwords.decode(" ".join(group))), len(group)) for group in groups]

    def _find_tokenizer(self, lang: str) -> Tokenizer:
        if lang not in self._tokenizers:
            languages = " and ".join(self._tokenizers)
            raise InputError(f"the data does not contain the language {lang!r}, only {languages}")
        return self._tokenizers[lang]
