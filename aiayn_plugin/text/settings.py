"""`text.json`: the settings of a data directory, with which raw text is prepared for its model."""

import dataclasses
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError
from .lines import MAX_SETTINGS_FILE, read_data_file
from .subwords import Bpe

SETTINGS_FILE = "text.json"
#: One line: the number of training pairs kept, and the number dropped for each reason.
PAIRS_FILE = "pairs.txt"
#: Sentences that the translation page of a bundle offers, in the source language.
EXAMPLES_FILE = "examples.txt"
FORMAT_VERSION = 1
#: The tokenisers. "moses" gives the tokens of Moses's scripts as of the paper's publication;
#: "sacremoses" gives those of sacremoses and keeps some words whole (tokenizer.PROTECTED).
MOSES, SACREMOSES = TOKENIZERS = ("moses", "sacremoses")
#: Languages written without spaces: the tokens of their text are not words.
WITHOUT_SPACES = frozenset(("zh", "ja", "yue", "th", "lo", "km", "my"))
#: The tokeniser of data with trees as targets: the words are the Penn Treebank's.
PENN = "penn"
#: Maximum depth of a tree. The deepest trees of the treebanks have about 40 levels.
MAX_TREE_DEPTH = 200
#: These settings are file names or parts of them.
_FILE_NAMES = ("codes", "source_lang", "target_lang")


def rules_language(lang: str) -> str:
    """Return the language whose rules a text follows: de for de, DE, de_AT, de-AT and deu."""
    base = re.split("[_-]", lang.lower())[0]
    if len(base) != 3:
        return base
    from babel.core import get_global  # here, since few texts need it

    return get_global("language_aliases").get(base, base)


@dataclass(frozen=True)
class TextSettings:
    """The content of `text.json`."""

    source_lang: str
    target_lang: str
    #: Number of BPE merges requested; the text may yield fewer. 0 if `vocabulary` is set.
    merges: int
    #: One of TOKENIZERS, or PENN.
    tokenizer: str = MOSES
    normalize_punctuation: bool = False
    #: A key of SUBWORDS.
    subword: str = "bpe"
    #: The file of the subword model.
    codes: str = Bpe.file_name
    codes_sha256: str = ""
    cleaning: dict[str, float] = field(default_factory=dict)
    #: The SHA-256 of each input by its name, such as "train.en".
    inputs: dict[str, str] = field(default_factory=dict)
    #: The version of each library that the data depends on.
    versions: dict[str, str] = field(default_factory=dict)
    #: Number of subwords requested. 0 if `merges` is set.
    vocabulary: int = 0

    def __post_init__(self) -> None:
        """Raise InputError if a name might point outside the directory."""
        for name in _FILE_NAMES:
            if not re.fullmatch(r"\w[\w.-]*", value := getattr(self, name)):
                raise InputError(f"{name} is not a file name: {value!r}")

    @property
    def languages(self) -> tuple[str, str]:
        """The source and the target language."""
        return self.source_lang, self.target_lang

    @property
    def dictionaries(self) -> list[str]:
        """The file names of the two dictionaries."""
        return [f"dict.{lang}.txt" for lang in self.languages]

    @property
    def holds_trees(self) -> bool:
        """Whether the sources are sentences and the targets their trees (§6.3)."""
        return self.tokenizer == PENN

    def save(self, path: str | Path) -> None:
        """Write the settings as JSON."""
        content = {"format": FORMAT_VERSION, **dataclasses.asdict(self)}
        Path(path).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "TextSettings":
        """Return the settings that `save` wrote.

        Raises InputError if the file is malformed or in another format, and OSError if it cannot be
        read.
        """
        try:
            content: Any = json.loads(read_data_file(path, MAX_SETTINGS_FILE))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: not valid JSON: {error}") from None
        if not isinstance(content, dict) or content.pop("format", None) != FORMAT_VERSION:
            raise InputError(f"{path}: not text settings of format {FORMAT_VERSION}")
        fields = dataclasses.fields(cls)
        if unexpected := content.keys() ^ {item.name for item in fields}:
            names = ", ".join(sorted(unexpected))
            raise InputError(f"{path}: missing or unknown settings: {names}")
        for item in fields:
            expected = getattr(item.type, "__name__", str(item.type))
            if type(content[item.name]).__name__ != expected:
                raise InputError(f"{path}: {item.name} is not of type {expected}")
        for name, kinds in (("cleaning", (int, float)), ("inputs", str), ("versions", str)):
            if not all(isinstance(value, kinds) for value in content[name].values()):
                raise InputError(f"{path}: {name} has a value of the wrong type")
        try:
            return cls(**content)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None


def find_settings(data: Path) -> TextSettings | None:
    """Return the settings of a data directory, or None for fairseq-preprocess data.

    Raises InputError if they are malformed.
    """
    path = data / SETTINGS_FILE
    return TextSettings.load(path) if path.is_file() else None


def holds_trees(data: Path) -> bool:
    """Return whether the targets of a data directory are trees.

    Raises InputError if its settings are malformed.
    """
    settings = find_settings(data)
    return settings is not None and settings.holds_trees
