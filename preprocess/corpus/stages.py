"""Stages of long work: a stage is on disk whole or not at all, and is made again only if needed."""

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

from aiayn_plugin.errors import InputError

from .console import say

RECORD = "stage.json"
#: The names of files that a run in progress locks end in this.
LOCK_SUFFIX = ".lock"
#: Seconds to wait for a lock. The child of a killed run holds the lock until the child ends.
PATIENCE = 5.0


class Stage(NamedTuple):
    """A finished stage: its directory, its key and the result of making it.

    The key is a hash of everything that the stage depends on. It changes with each of them.
    """

    folder: Path
    key: str
    result: dict[str, Any]


def stage_key(name: str, made_of: Any) -> str:
    """Return the key of a stage: the SHA-256 of its name and of what it depends on."""
    return hashlib.sha256(json.dumps([name, made_of], sort_keys=True).encode()).hexdigest()


def find_stage(work: Path, name: str, made_of: Any) -> Stage | None:
    """Return the stage work/name, or None if it is missing or has another key."""
    try:
        record = json.loads((work / name / RECORD).read_bytes())
        stage = Stage(work / name, record["key"], record["result"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return stage if stage.key == stage_key(name, made_of) else None


def make_stage(
    work: Path, name: str, made_of: Any, make: Callable[[Path], dict[str, Any] | None]
) -> Stage:
    """Return the stage work/name. Call `make` only if the stage is missing or has another key.

    `made_of` is everything that the stage depends on, as JSON: settings and the keys of earlier
    stages. `make` fills the directory work/name.part and returns the result as JSON. The directory
    gets its final name when it is complete. So a run that was killed leaves no half stage, and the
    next run makes the stage from the start.
    """
    if stage := find_stage(work, name, made_of):
        say(f"{name}: done before")
        return stage
    stage = Stage(work / name, stage_key(name, made_of), {})
    unfinished = work / f"{name}.part"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    began = time.monotonic()
    try:
        stage = stage._replace(result=make(unfinished) or {})
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)  # perhaps its files fill the disk
        raise
    record = {"key": stage.key, "result": stage.result}
    (unfinished / RECORD).write_text(json.dumps(record, indent=2) + "\n")
    os.sync()  # else a power cut could leave the final name with empty files
    shutil.rmtree(stage.folder, ignore_errors=True)
    unfinished.rename(stage.folder)
    say(f"{name}: made in {time.monotonic() - began:,.1f} s")
    return stage


@contextlib.contextmanager
def locked(lock: Path, busy: str) -> Iterator[None]:
    """Hold a lock on a file, and create the file if it is missing.

    A child process that is started with close_fds=False holds the lock too.

    Raises InputError with the message `busy` if another process keeps the lock for PATIENCE.
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
                    raise InputError(busy) from None
            time.sleep(0.05)
        yield
