"""Raw text to subwords and back: the one path of preparing data and of translating."""

from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError
from .dictionary import read_dictionary
from .manifest import sha256
from .settings import PENN, SETTINGS_FILE, TextSettings
from .subwords import SUBWORDS, Bpe, Subwords
from .tokenizer import TOKENIZERS, Tokenizer

ADVICE = "give a directory that preprocess/ or aiayn bundle made, and copy all of its files"


def load_subwords(data_dir: str | Path) -> tuple[TextSettings, Subwords]:
    """Return the settings of a directory that `preprocess/` made, and its subwords.

    Raises InputError if a file is missing, or if the settings are broken, unknown or written for
    other codes, and OSError if a file cannot be read.
    """
    for_text = Path(data_dir) / SETTINGS_FILE
    if not for_text.is_file():
        raise InputError(f"{for_text} is missing: {ADVICE}")
    settings = TextSettings.load(for_text)
    if settings.tokenizer not in (*TOKENIZERS, PENN) or settings.subword not in SUBWORDS:
        kind = f"{settings.tokenizer} with {settings.subword}"
        raise InputError(f"{data_dir}: this version cannot handle {kind}")
    codes = Path(data_dir) / settings.codes
    if not codes.is_file():
        raise InputError(f"{codes} is missing: {ADVICE}")
    if sha256(codes) != settings.codes_sha256:
        raise InputError(f"{codes}: not the codes that the data was prepared with")
    if settings.holds_trees:
        known = read_dictionary(Path(data_dir) / f"dict.{settings.source_lang}.txt")
        return settings, Bpe(codes, {word for word, _ in known})
    return settings, SUBWORDS[settings.subword][0](codes)


class TextPipeline:
    """Tokeniser and subwords with the settings of one data directory."""

    def __init__(self, settings: TextSettings, subwords: Subwords) -> None:
        self.settings = settings
        self._subwords = subwords
        self._tokenizers = {
            lang: Tokenizer(lang, settings.normalize_punctuation, settings.tokenizer)
            for lang in (settings.source_lang, settings.target_lang)
        }

    @classmethod
    def load(cls, data_dir: str | Path) -> "TextPipeline":
        """Return the pipeline of a directory that `preprocess/` made of parallel text.

        Raises InputError and OSError as load_subwords does.
        """
        settings, subwords = load_subwords(data_dir)
        if settings.holds_trees:
            raise InputError(f"{data_dir} holds trees, of a parser: aiayn parse parses with it")
        return cls(settings, subwords)

    def encode(self, line: str, lang: str | None = None) -> str:
        """Return the subwords of a raw line of `lang` (default: the source language).

        Raises InputError if the data has no such language.
        """
        return self._subwords.encode(self._of(lang or self.settings.source_lang).tokenize(line))

    def decode(self, line: str, lang: str | None = None) -> str:
        """Return the raw text of a line of subwords (default: of the target language).

        Raises InputError if the data has no such language.
        """
        tokens = self._subwords.decode(line)
        return self._of(lang or self.settings.target_lang).detokenize(tokens)

    def words(self, pieces: Sequence[str]) -> list[tuple[str, int]]:
        """Return the words that subwords make up, and how many make up each.

        For example, `he@@ llo world` is [("hello", 2), ("world", 1)].
        """
        groups: list[list[str]] = []
        for i, piece in enumerate(pieces):
            if i and self._subwords.continues(piece, pieces[i - 1]):
                groups[-1].append(piece)
            else:
                groups.append([piece])
        return [("".join(self._subwords.decode(" ".join(group))), len(group)) for group in groups]

    def _of(self, lang: str) -> Tokenizer:
        if lang not in self._tokenizers:
            languages = " and ".join(self._tokenizers)
            raise InputError(f"no language {lang!r}: the data has {languages}")
        return self._tokenizers[lang]
