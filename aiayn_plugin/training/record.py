"""The record of a training run, `run.jsonl`: one JSON object per line, next to the checkpoints."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: The file's name in the directory of the checkpoints.
RECORD_FILE = "run.jsonl"


def append_record(path: Path, record: Mapping[str, Any]) -> None:
    """Append a record as one line, in a single write. Raises OSError if it cannot be written.

    If an interrupted process left an incomplete line, a line break is written first. Values that
    JSON cannot represent are written as strings.
    """
    line = json.dumps(record, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace")
    # A link in a directory from elsewhere could lead to any file of the user.
    with open(path, "a+b", buffering=0, opener=_open_unless_link) as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                line = b"\n" + line
        file.write(line + b"\n")


def _open_unless_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)
