"""What the translation page shows about its model: training data and example sentences."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..text.lines import read_data_file
from ..text.settings import EXAMPLES_FILE, PAIRS_FILE, TextSettings

#: The number of example sentences, and their lengths in characters.
EXAMPLES, LENGTHS = 4, range(12, 90)


def describe_model(data: Path, settings: TextSettings, characters: int) -> dict[str, Any]:
    """Return the number of training pairs, the corpora and example sentences, where known.

    characters: the length of the longest sentence that the service accepts.
    """
    text = _read(data / EXAMPLES_FILE) or _read(data / f"test.raw.{settings.source_lang}")
    lengths = range(LENGTHS.start, min(LENGTHS.stop, characters + 1))
    fitting = [line for line in dict.fromkeys(text.splitlines()) if len(line) in lengths]
    corpora = {name.removeprefix("train.") for name in settings.inputs if name.startswith("train.")}
    pairs = re.match(r"training pairs: ([\d,]{1,20}) of", _read(data / PAIRS_FILE))
    return {
        "pairs": pairs[1] if pairs else None,
        "corpora": sorted(corpora - {settings.source_lang, settings.target_lang}),
        "examples": fitting[:: max(1, len(fitting) // EXAMPLES)][:EXAMPLES],
    }


def _read(path: Path) -> str:
    """Return a text file, empty if it cannot be read: the page works without it."""
    with suppress(InputError, OSError):
        return read_data_file(path).decode(errors="replace")
    return ""
