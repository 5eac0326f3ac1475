"""`text.json`: the settings that made a data directory, and that prepare raw text for its model."""

import dataclasses
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError
from .subwords import SUBWORDS
from .tokenizer import MOSES

SETTINGS_FILE = "text.json"
#: One line beside it: how many training pairs were kept, and how many dropped for which reason.
PAIRS_FILE = "pairs.txt"
FORMAT_VERSION = 1
#: The tokeniser of data that holds trees: its words are the Penn Treebank's.
PENN = "penn"
#: Its constituents within each other. The deepest of the treebanks have about 40.
DEEPEST = 200
#: These settings become names of files, or parts of them.
_FILE_NAMES = ("codes", "source_lang", "target_lang")


@dataclass(frozen=True)
class TextSettings:
    """The settings that `text.json` holds."""

    source_lang: str
    target_lang: str
    #: Merges asked for; the codes hold fewer if the training text gives no more.
    merges: int
    #: One of TOKENIZERS, or PENN. Directories of older versions have "sacremoses".
    tokenizer: str = MOSES
    normalize_punctuation: bool = False
    #: A key of SUBWORDS.
    subword: str = "bpe"
    #: The file of the subwords.
    codes: str = SUBWORDS["bpe"][1]
    codes_sha256: str = ""
    cleaning: dict[str, float] = field(default_factory=dict)
    #: The SHA-256 of each input, under its name: "train.en" and so on.
    inputs: dict[str, str] = field(default_factory=dict)
    #: The version of each library that had a part in it.
    versions: dict[str, str] = field(default_factory=dict)
    #: Subwords asked for; then `merges` is 0. If merges were asked for, this is 0.
    vocabulary: int = 0

    @property
    def holds_trees(self) -> bool:
        """Whether the source is sentences and the target their trees (§6.3)."""
        return self.tokenizer == PENN

    def save(self, path: str | Path) -> None:
        """Write the settings as JSON."""
        content = {"format": FORMAT_VERSION, **dataclasses.asdict(self)}
        Path(path).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "TextSettings":
        """Return the settings that `save` wrote.

        Raises InputError if the file is broken or of another format, and OSError if it cannot be
        read.
        """
        try:
            content: Any = json.loads(Path(path).read_bytes())
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: not valid JSON: {error}") from None
        if not isinstance(content, dict) or content.pop("format", None) != FORMAT_VERSION:
            raise InputError(f"{path}: not text settings of format {FORMAT_VERSION}")
        content.setdefault("vocabulary", 0)  # the format is older than this setting
        fields = dataclasses.fields(cls)
        if wrong := content.keys() ^ {item.name for item in fields}:
            raise InputError(f"{path}: missing or unknown settings: {', '.join(sorted(wrong))}")
        for item in fields:
            kind = getattr(item.type, "__name__", str(item.type))
            if type(content[item.name]).__name__ != kind:
                raise InputError(f"{path}: {item.name} is not of type {kind}")
            # The directory may come from anywhere: no name may lead out of it.
            if item.name in _FILE_NAMES and not re.fullmatch(r"\w[\w.-]*", content[item.name]):
                raise InputError(f"{path}: {item.name} is no plain name: {content[item.name]!r}")
        return cls(**content)


def holds_trees(data: Path) -> bool:
    """Whether a directory of data says that its targets are trees.

    Raises InputError if its settings are broken.
    """
    settings = data / SETTINGS_FILE
    return settings.is_file() and TextSettings.load(settings).holds_trees
