"""Stages of a long computation: written atomically, and repeated only if their inputs change."""

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..atomic import write_directory_atomically
from .console import say

RECORD = "stage.json"
#: The action in the log line of a stage, as in "train: split into subwords in 2 s".
OUTCOMES = {"raw": "extracted", "split": "split into subwords", "trees": "read"}


class Stage(NamedTuple):
    """A finished stage: its directory, its key and its result.

    The key is a hash of everything that the stage depends on.
    """

    folder: Path
    key: str
    result: dict[str, Any]


def stage_key(name: str, inputs: Any) -> str:
    """Return the key of a stage: the SHA-256 of its name and of everything it depends on."""
    return hashlib.sha256(json.dumps([name, inputs], sort_keys=True).encode()).hexdigest()


def find_stage(work: Path, name: str, inputs: Any) -> Stage | None:
    """Return the stage work/name, or None if it is missing or has a different key."""
    try:
        record = json.loads((work / name / RECORD).read_bytes())
        stage = Stage(work / name, record["key"], record["result"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return stage if stage.key == stage_key(name, inputs) else None


def make_stage(
    work: Path, name: str, inputs: Any, make: Callable[[Path], dict[str, Any] | None]
) -> Stage:
    """Return the stage work/name, which is made if it is missing or has a different key.

    inputs: everything that the stage depends on, as JSON: settings and keys of earlier stages.
    make: writes the files of the stage to a temporary directory and returns its result as JSON.
    """
    kind, _, text = name.partition(".")
    outcome = f"{text}: {OUTCOMES.get(kind, kind)}" if text else f"{name}: made"
    if stage := find_stage(work, name, inputs):
        say(f"{outcome} by an earlier run")
        return stage
    began = time.monotonic()
    key = stage_key(name, inputs)
    (work / name / RECORD).unlink(missing_ok=True)  # a kill may leave the old stage incomplete
    with write_directory_atomically(work / name, replace=True) as unfinished:
        result = make(unfinished) or {}
        record = {"key": key, "result": result}
        (unfinished / RECORD).write_text(json.dumps(record, indent=2) + "\n")
    say(f"{outcome} in {time.monotonic() - began:,.1f} s")
    return Stage(work / name, key, result)
