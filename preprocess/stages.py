"""Stages of long work: each is there whole or not at all, and is made again only if it must be."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from parallel import say

from aiayn_plugin.errors import TextError

RECORD = "stage.json"
#: How long a child of a killed run may take to end before it counts as another run.
PATIENCE = 5.0


class Stage(NamedTuple):
    """A finished stage: its directory, what it was made of as one number, what making it gave."""

    folder: Path
    key: str
    result: dict[str, Any]


def stage(
    work: Path, name: str, made_of: Any, make: Callable[[Path], dict[str, Any] | None]
) -> Stage:
    """Return the stage work/name, made by `make(directory)` unless it was already.

    `made_of` is whatever the stage depends on, as JSON: settings, and keys of stages before it.
    `make` fills a directory aside, which takes its place when it is done; a run that was killed
    in between finds nothing, and makes the stage from its beginning.
    """
    found, key = done(work, name, made_of)
    if found:
        say(f"{name}: done before")
        return found
    folder, part = work / name, work / f"{name}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    began = time.monotonic()
    try:
        result = make(part) or {}
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)  # it may be what fills the disk
        raise
    (part / RECORD).write_text(json.dumps({"key": key, "result": result}, indent=2) + "\n")
    os.sync()  # else a power cut could leave the name without the bytes
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    say(f"{name}: made in {time.monotonic() - began:,.1f} s")
    return Stage(folder, key, result)


def done(work: Path, name: str, made_of: Any) -> tuple[Stage | None, str]:
    """Return the stage if it is there, made of the same, and the key that it has or would have."""
    key = hashlib.sha256(json.dumps([name, made_of], sort_keys=True).encode()).hexdigest()
    try:
        record = json.loads((work / name / RECORD).read_bytes())
        found = Stage(work / name, record["key"], record["result"])
    except (OSError, ValueError, KeyError, TypeError):
        return None, key
    return (found if found.key == key else None), key


@contextlib.contextmanager
def locked(lock: Path, busy: str) -> Iterator[None]:
    """Hold a lock on a file, made if need be; children started with close_fds=False hold it too.

    Raises:
        TextError: another process holds it; the message is `busy`.
    """
    with open(lock, "w") as file:
        os.set_inheritable(file.fileno(), True)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TextError(busy) from None
            time.sleep(0.05)
        yield
