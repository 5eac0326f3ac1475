"""fairseq's checkpoints as files: read without running code, written whole."""

import pickle
import re
import warnings
import zipfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from ..errors import InputError
from . import numbers
from .aside import file_aside
from .numbers import with_arrays

#: The buffer that a model keeps of its settings (compare.py), and its name in older checkpoints.
BUFFER, OLD_BUFFER = "settings_without_shape", "shapeless"
#: What torch reports of code that the file wants to run.
UNSAFE = re.compile(r"GLOBAL (\S+)")
#: Settings that say how many layers to build.
LAYERS = re.compile(r"^N$|layers$")
#: More settings than any model has; a file can name one list of them a billion times.
MOST_SETTINGS = 100_000
ADVICE = "take another copy of it, or another checkpoint"

# fairseq stores its settings as a Namespace, which is as plain as a dictionary. It stays allowed,
# so that a user's own torch.load can read a checkpoint.
torch.serialization.add_safe_globals([Namespace])


def load(path: Path) -> dict:
    """Return one fairseq checkpoint on the CPU, without running any code that it may hold.

    Raises InputError if the file is broken, no checkpoint of fairseq or not a safe one, and OSError
    if it cannot be read.
    """
    check_intact(path)
    state = _unpickled(path)
    state["model"] = todays_names(state["model"])
    return state


def glance(path: Path) -> dict:
    """As load, for the settings: the weights stay in the file, and nobody looks at them."""
    return _unpickled(path, mmap=_is_archive(path))


def plain_data() -> AbstractContextManager:
    """Return the context in which torch loads the numbers of numpy that fairseq stores."""
    return torch.serialization.safe_globals(numbers.GLOBALS)


def check_intact(path: Path) -> None:
    """Raise InputError if the file is cut off or a bit of it has changed.

    torch stores the CRC-32 of each part of a checkpoint, and does not look at it. Files of torch
    before 1.6 have none.
    """
    if not _is_archive(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            # torch compresses nothing, so a file that is small when packed wants to fill the memory
            packed = any(part.compress_type != zipfile.ZIP_STORED for part in archive.infolist())
            changed = None if packed else archive.testzip()
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, ValueError) as error:
        why = "it is cut off" if "not a zip file" in str(error) else str(error)
        raise InputError(f"{path} is a broken checkpoint: {why}; {ADVICE}") from None
    if packed or changed:
        why = f"{changed} in it has changed since it was written" if changed else "it is compressed"
        raise InputError(f"{path} is a broken checkpoint: {why}; {ADVICE}")


def _is_archive(path: Path) -> bool:
    """Whether torch reads a file as a zip archive."""
    with open(path, "rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _unpickled(path: Path, mmap: bool = False) -> dict:
    try:
        with plain_data(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, about its own old formats
            state = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
        state = with_arrays(state)
    except OSError:
        raise
    except pickle.UnpicklingError as error:
        unsafe = UNSAFE.search(str(error))
        why = f": it wants to run {unsafe[1]}" if unsafe else ""
        raise InputError(f"{path} is no checkpoint that can be loaded safely{why}") from None
    except Exception:  # a broken file may lead to any of them
        raise InputError(f"{path} is no checkpoint, or a broken one; {ADVICE}") from None
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise InputError(f"{path} is no fairseq checkpoint: it holds no model")
    return check(state, path)


def check(state: dict, path: Path) -> dict:
    """Return a checkpoint whose settings are what settings may be.

    They are plain values, refer to nothing outside of them, and the model has no more layers than
    tensors. Raises InputError if they are not.
    """
    settings = chain.from_iterable(_settings(state.get(part)) for part in ("args", "cfg"))
    for number, (name, value) in enumerate(settings):
        if number >= MOST_SETTINGS:
            why = f"are more than {MOST_SETTINGS:,}, or hold themselves"
        elif not isinstance(value, (str, int, float, type(None))):
            why = f"have a {type(value).__name__} as {name}, which is no plain value"
        elif isinstance(value, str) and "${" in value:
            why = f"refer in {name} to something else ({value[:80]})"
        elif LAYERS.search(name) and isinstance(value, int) and value > len(state["model"]):
            why = f"have {value} as {name}, and the model has {len(state['model'])} tensors"
        else:
            continue
        raise InputError(f"{path} is no checkpoint that can be loaded safely: its settings {why}")
    return state


def _settings(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each single setting with its name, and each list or dictionary of them as None."""
    open_ones = [("", value)]
    while open_ones:
        name, value = open_ones.pop()
        value = vars(value) if isinstance(value, Namespace) else value
        if isinstance(value, dict):
            open_ones += [(str(key), inner) for key, inner in value.items()]
        elif isinstance(value, (list, tuple)):
            open_ones += [(name, inner) for inner in value]
        else:
            yield name, value
            continue
        yield name, None


def todays_names(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the weights of a checkpoint under the names of this version."""
    return {BUFFER if name == OLD_BUFFER else name: weight for name, weight in weights.items()}


def configuration(state: dict) -> tuple[dict[str, Any], str | None]:
    """Return the configuration in a checkpoint, and the name of the architecture.

    The settings of the model are a Namespace in it. Older versions of fairseq stored their command
    line as `args` instead; fairseq builds its model from them if they are there. Raises InputError
    if there is neither.
    """
    if (args := state.get("args")) is not None:
        args = _namespace(args)
        task = {"_name": getattr(args, "task", "translation"), "data": getattr(args, "data", None),
                "source_lang": getattr(args, "source_lang", None),
                "target_lang": getattr(args, "target_lang", None)}
        return {"model": args, "task": task}, getattr(args, "arch", None)
    if isinstance(state.get("cfg"), dict) and "model" in state["cfg"]:
        model = _namespace(state["cfg"]["model"])
        architecture = getattr(model, "_name", None) or getattr(model, "arch", None)
        return {**state["cfg"], "model": model}, architecture
    raise InputError("the checkpoint holds no settings of its model (neither cfg nor args)")


def _namespace(settings: Any) -> Namespace:
    if isinstance(settings, Namespace):
        return settings
    if not isinstance(settings or {}, dict):
        raise InputError(f"the settings of the checkpoint's model are a {type(settings).__name__}")
    return Namespace(**(settings or {}))


def save(state: dict, path: Path) -> None:
    """Write a checkpoint aside, then give it its name; make the directory.

    Raises InputError if the disk is full.
    """
    with file_aside(path) as aside, open(aside, "wb") as file:
        torch.save(state, file)
