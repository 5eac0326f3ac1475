"""Raw text to subwords and back: the one path that preparing data and translating share.

A line goes through the Moses tokeniser and the subword model; `TextPipeline` puts them together
from the `text.json` that stands beside the prepared data.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import TextError
from .subword import Bpe, Subword, WordPieces
from .tokenizer import Tokenizer

SETTINGS_FILE = "text.json"
#: Settings that are names of files, or parts of them.
_FILE_NAMES = ("codes", "source_lang", "target_lang")
FORMAT_VERSION = 1
#: The kinds of subwords: what reads the file of the model, and the file's name.
SUBWORDS: dict[str, tuple[Callable[[Path], Subword], str]] = {
    "bpe": (Bpe, "codes.bpe"),
    "wordpiece": (WordPieces, "wordpieces.model"),
}


def file_sha256(path: str | Path) -> str:
    """Return the SHA-256 of a small file, in hexadecimal."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@dataclass(frozen=True)
class TextSettings:
    """How a data directory was made, and so how raw text meets the model trained on it."""

    source_lang: str
    target_lang: str
    merges: int  # as asked for: the codes may hold fewer when the training text gives no more
    tokenizer: str = "sacremoses"
    normalize_punctuation: bool = False
    subword: str = "bpe"
    codes: str = SUBWORDS["bpe"][1]
    codes_sha256: str = ""
    cleaning: dict[str, float] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)  # "train.en" and so on: its sha256
    versions: dict[str, str] = field(default_factory=dict)  # library: its version
    vocabulary: int = 0  # pieces asked for, where merges were not (merges is 0 then)

    def save(self, path: str | Path) -> None:
        """Write the settings as JSON."""
        content = {"format": FORMAT_VERSION, **dataclasses.asdict(self)}
        Path(path).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")

    @classmethod
    def load(cls, path: str | Path) -> TextSettings:
        """Return the settings that `save` wrote.

        Raises:
            TextError: the file is broken, or of a format that this version does not know.
            OSError: the file cannot be read.
        """
        try:
            content: Any = json.loads(Path(path).read_bytes())
        except ValueError as error:
            raise TextError(f"{path}: not valid JSON: {error}") from None
        if not isinstance(content, dict) or content.pop("format", None) != FORMAT_VERSION:
            raise TextError(f"{path}: not text settings of format {FORMAT_VERSION}")
        content.setdefault("vocabulary", 0)  # younger than the format
        fields = dataclasses.fields(cls)
        if content.keys() != {item.name for item in fields}:
            wrong = content.keys() ^ {item.name for item in fields}
            raise TextError(f"{path}: missing or unknown settings: {', '.join(sorted(wrong))}")
        for item in fields:
            kind = str(item.type).partition("[")[0]
            if type(content[item.name]).__name__ != kind:
                raise TextError(f"{path}: {item.name} is not of type {kind}")
            # they become names of files, in a directory that came from anywhere
            if item.name in _FILE_NAMES and not re.fullmatch(r"\w[\w.-]*", content[item.name]):
                raise TextError(f"{path}: {item.name} is no plain name: {content[item.name]!r}")
        return cls(**content)


class TextPipeline:
    """Raw text to subwords and back, with the settings of one data directory."""

    def __init__(self, settings: TextSettings, subword: Subword) -> None:
        self.settings = settings
        self._subword = subword
        self._tokenizers = {
            lang: Tokenizer(lang, settings.normalize_punctuation)
            for lang in (settings.source_lang, settings.target_lang)
        }

    @classmethod
    def load(cls, data_dir: str | Path) -> TextPipeline:
        """Return the pipeline of a directory made by `preprocess/prepare.py`.

        Raises:
            TextError: the settings are broken or unknown, or the codes are not those
                that the settings were written for.
            OSError: a file is missing or cannot be read.
        """
        settings = TextSettings.load(Path(data_dir) / SETTINGS_FILE)
        if settings.tokenizer != "sacremoses" or settings.subword not in SUBWORDS:
            known = f"{settings.tokenizer} with {settings.subword}"
            raise TextError(f"{data_dir}: this version cannot handle {known}")
        codes = Path(data_dir) / settings.codes
        if file_sha256(codes) != settings.codes_sha256:
            raise TextError(f"{codes}: not the codes that the data was prepared with")
        return cls(settings, SUBWORDS[settings.subword][0](codes))

    def encode(self, line: str, lang: str | None = None) -> str:
        """Return the subwords of a raw line of `lang` (default: the source language).

        Raises:
            TextError: the data has no such language.
        """
        return self._subword.encode(self._of(lang or self.settings.source_lang).tokenize(line))

    def decode(self, line: str, lang: str | None = None) -> str:
        """Return the raw text of a line of subwords (default: in the target language).

        Raises:
            TextError: the data has no such language.
        """
        tokens = self._subword.decode(line)
        return self._of(lang or self.settings.target_lang).detokenize(tokens)

    def _of(self, lang: str) -> Tokenizer:
        if lang not in self._tokenizers:
            raise TextError(f"no language {lang!r}: the data has {' and '.join(self._tokenizers)}")
        return self._tokenizers[lang]
