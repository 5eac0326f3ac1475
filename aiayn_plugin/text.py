"""Raw text to subwords and back: the one path that preparing data and translating share.

A line goes through `clean_line`, the Moses tokeniser and the subword model; `TextPipeline`
puts them together from the `text.json` that stands beside the prepared data.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer
from subword_nmt.apply_bpe import BPE

SETTINGS_FILE = "text.json"
#: Settings that are names of files, or parts of them.
_FILE_NAMES = ("codes", "source_lang", "target_lang")
CODES_FILE = "codes.bpe"
FORMAT_VERSION = 1

# Control characters and the two Unicode separators hold every character that some reader takes
# for a line end (str.splitlines, text-mode files), and NUL.
_TO_SPACE = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029], " ")

# What the Moses tokeniser splits and its detokeniser does not join again: 15:05, km/h, km², A$,
# °C, 1939–1945.
PROTECTED = (
    *(r"\d+(?::\d+)+", r"\w+(?:/\w+)+", r"\w+[²³]", r"[A-Z]+[$¥]", r"°[CF]"),
    r"[\w:]+\.?–[\w:]+",
)

# A word is cached once per process; a corpus of millions of types must not fill the memory.
_CACHED_WORDS = 500_000


class TextError(ValueError):
    """Text, codes or settings that cannot be used; the message is one line for the user."""


def clean_line(text: str) -> str:
    """Return `text` with every line-break or control character made a space."""
    return text.translate(_TO_SPACE)


def read_lines(path: str | Path) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 file, without their ends.

    Only \n ends a line, so that two parallel files stay in step whatever Unicode line breaks
    they hold; a \r before it and a byte-order mark at the start of the file are removed.

    Raises:
        TextError: a line is not UTF-8; the message names file and line.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            yield decode_line(line, number, path)


def decode_line(line: bytes, number: int, path: str | Path) -> str:
    """Return line `number` of the file `path` as text, without its end.

    Raises:
        TextError: the line is not UTF-8.
    """
    try:
        text = line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise TextError(
            f"{path}, line {number}: not valid UTF-8 (byte 0x{line[error.start]:02x} at "
            f"position {error.start + 1}); convert the file to UTF-8, for example with iconv"
        ) from None
    return text.removeprefix("\ufeff") if number == 1 else text


def file_sha256(path: str | Path) -> str:
    """Return the SHA-256 of a small file, in hexadecimal."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


class Tokenizer:
    """The Moses tokeniser of one language, without XML escapes."""

    def __init__(self, lang: str, normalize_punctuation: bool = False) -> None:
        self._tokenizer = MosesTokenizer(lang)
        self._detokenizer = MosesDetokenizer(lang)
        self._normalizer = MosesPunctNormalizer(lang) if normalize_punctuation else None

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of one raw line; none of them holds white space."""
        text = clean_line(text)
        if self._normalizer:
            text = self._normalizer.normalize(text)
        split = functools.partial(
            self._tokenizer.tokenize, text, aggressive_dash_splits=False, escape=False
        )
        try:
            return split(protected_patterns=PROTECTED)
        except ValueError:  # sacremoses protects up to 1,000 tokens of a line
            return split()

    def detokenize(self, tokens: Iterable[str]) -> str:
        """Return the raw line that the tokens stand for."""
        return self._detokenizer.detokenize(list(tokens), unescape=False)


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

    def encode(self, tokens: Iterable[str]) -> str:
        """Return the pieces of the tokens, separated by single spaces."""
        if len(self._bpe.cache) > _CACHED_WORDS:
            self._bpe.cache.clear()
        return " ".join(self._bpe.segment_tokens(tokens))

    @staticmethod
    def decode(pieces: str) -> list[str]:
        """Return the tokens that the pieces make up."""
        return re.sub(r"@@( |$)", "", pieces).split()


@dataclass(frozen=True)
class TextSettings:
    """How a data directory was made, and so how raw text meets the model trained on it."""

    source_lang: str
    target_lang: str
    merges: int  # as asked for: the codes may hold fewer when the training text gives no more
    tokenizer: str = "sacremoses"
    normalize_punctuation: bool = False
    subword: str = "bpe"
    codes: str = CODES_FILE
    codes_sha256: str = ""
    cleaning: dict[str, float] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)  # "train.en" and so on: its sha256
    versions: dict[str, str] = field(default_factory=dict)  # library: its version

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

    def __init__(self, settings: TextSettings, subword: Bpe) -> None:
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
        if (settings.tokenizer, settings.subword) != ("sacremoses", "bpe"):
            known = f"{settings.tokenizer} with {settings.subword}"
            raise TextError(f"{data_dir}: this version cannot handle {known}")
        codes = Path(data_dir) / settings.codes
        if file_sha256(codes) != settings.codes_sha256:
            raise TextError(f"{codes}: not the codes that the data was prepared with")
        return cls(settings, Bpe(codes))

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
