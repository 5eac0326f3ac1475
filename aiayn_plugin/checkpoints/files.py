"""fairseq's checkpoints as files: read without running code, written whole."""

import os
import pickle
import re
import tempfile
import warnings
import zipfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch

from ..errors import InputError
from . import numbers
from .numbers import with_arrays

#: The buffer that a model keeps of its settings (compare.py), and its name in older checkpoints.
BUFFER, OLD_BUFFER = "settings_without_shape", "shapeless"
#: What torch reports of code that the file wants to run.
UNSAFE = re.compile(r"GLOBAL (\S+)")
#: Settings that say how many layers to build.
LAYERS = re.compile(r"^N$|layers$")
#: How deeply settings may be nested; fairseq's are four deep.
DEEPEST = 16
ADVICE = "take another copy of it, or another checkpoint"


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
    """Return the context in which torch loads what fairseq stores, and nothing else.

    fairseq stores its command line (a Namespace), and numbers of numpy.
    """
    return torch.serialization.safe_globals([Namespace, *numbers.GLOBALS])


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
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
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
    return check(with_arrays(state), path)


def check(state: dict, path: Path) -> dict:
    """Return a checkpoint whose settings are what settings may be.

    They are plain values, refer to nothing outside of them, and the model has no more layers than
    tensors. Raises InputError if they are not.
    """
    for part in ("args", "cfg"):
        for name, value in _settings(state.get(part)):
            if not isinstance(value, (str, int, float, type(None))):
                why = f"is a {type(value).__name__}, no plain value"
            elif isinstance(value, str) and "${" in value:
                why = f"refers to something else ({value})"
            elif LAYERS.search(name) and isinstance(value, int) and value > len(state["model"]):
                why = f"is {value}, and the model has {len(state['model'])} tensors"
            else:
                continue
            raise InputError(f"{path} is no checkpoint that can be loaded safely: its setting "
                             f"{name} {why}")
    return state


def _settings(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield each single setting with its name. What is nested too deeply is one setting."""
    value = vars(value) if isinstance(value, Namespace) else value
    if isinstance(value, dict) and depth < DEEPEST:
        for key, inner in value.items():
            yield from _settings(inner, str(key), depth + 1)
    elif isinstance(value, (list, tuple)) and depth < DEEPEST:
        for inner in value:
            yield from _settings(inner, name, depth + 1)
    else:
        yield name, value


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
        cfg = {"model": args, "task": task}
    elif isinstance(state.get("cfg"), dict) and "model" in state["cfg"]:
        cfg = {**state["cfg"], "model": _namespace(state["cfg"]["model"])}
    else:
        raise InputError("the checkpoint holds no settings of its model (neither cfg nor args)")
    model = cfg["model"]
    return cfg, getattr(model, "_name", None) or getattr(model, "arch", None)


def _namespace(settings: Any) -> Namespace:
    if isinstance(settings, Namespace):
        return settings
    if not isinstance(settings or {}, dict):
        raise InputError(f"the settings of the checkpoint's model are a {type(settings).__name__}")
    return Namespace(**(settings or {}))


def save(state: dict, path: Path) -> None:
    """Write a checkpoint aside, then give it its name; make the directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(path.name + ".tmp")
    torch.save(state, aside)
    os.replace(aside, path)


@contextmanager
def written_aside(directory: Path) -> Iterator[Path]:
    """Give an empty directory, which becomes `directory` if all inside `with` goes well.

    Raises InputError if `directory` is there already.
    """
    if directory.exists():
        raise InputError(f"{directory} is there already: give another --output")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}.") as aside:
        unfinished = Path(aside) / directory.name
        unfinished.mkdir()
        yield unfinished
        unfinished.rename(directory)
