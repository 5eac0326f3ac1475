"""fairseq's checkpoints as files: read without running code, and written atomically."""

import ast
import pickle
import re
import warnings
import zipfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..atomic import write_file_atomically
from ..errors import InputError
from . import numpy_unpickling as numbers
from .numpy_unpickling import with_arrays

#: How torch names a function that a file would call.
UNSAFE = re.compile(r"GLOBAL (\S+)")
#: Settings for the number of layers, and for widths.
LAYERS, WIDTHS = re.compile(r"^N$|layers$"), re.compile(r"^d_|_dim$|^h$|_heads$")
#: More settings than any model has: a file can refer to one list of settings a billion times.
MAX_SETTINGS = 100_000
ADVICE = "use an intact copy, or a different checkpoint"

# fairseq stores its settings as a Namespace, which is as safe as a dictionary. It is allowed
# globally, so that a user's own torch.load can read a checkpoint.
torch.serialization.add_safe_globals([Namespace])


def load(path: Path) -> dict:
    """Return a fairseq checkpoint on the CPU, without running any code in it.

    Raises InputError if the file is broken, not a checkpoint of fairseq or unsafe, and OSError if
    it cannot be read.
    """
    check_intact(path)
    return _unpickle(path)


def glance(path: Path) -> dict:
    """Like load, for reading the settings only: weights are memory-mapped and not verified.

    Files of torch before 1.6 are read completely.
    """
    return _unpickle(path, mmap=_is_archive(path))


def plain_data() -> AbstractContextManager:
    """Return a context in which torch loads the numpy numbers that fairseq stores."""
    return torch.serialization.safe_globals(numbers.GLOBALS)


def check_intact(path: Path) -> None:
    """Raise InputError if the file is truncated or a bit of it has changed.

    torch stores a CRC-32 of each record of a checkpoint, but does not verify it. Files of torch
    before 1.6 have none.
    """
    if not _is_archive(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            # torch does not compress, so a compressed file may be a zip bomb
            is_compressed = any(
                record.compress_type != zipfile.ZIP_STORED for record in archive.infolist()
            )
            changed = None if is_compressed else archive.testzip()
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, ValueError) as error:
        why = "it is cut off" if "not a zip file" in str(error) else str(error)
        raise InputError(f"{path} is a broken checkpoint: {why}; {ADVICE}") from None
    if is_compressed or changed:
        why = f"{changed} in it has changed since it was written" if changed else "it is compressed"
        raise InputError(f"{path} is a broken checkpoint: {why}; {ADVICE}")


def _is_archive(path: Path) -> bool:
    """Return whether torch reads a file as a zip archive."""
    with open(path, "rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _unpickle(path: Path, mmap: bool = False) -> dict:
    try:
        with plain_data(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, about its old formats
            state = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
        state = with_arrays(state)
    except OSError:
        raise
    except pickle.UnpicklingError as error:
        unsafe = UNSAFE.search(str(error))
        why = f": it would run {unsafe[1]}" if unsafe else ""
        raise InputError(f"{path} cannot be loaded safely{why}") from None
    except Exception as error:  # a broken file may raise any of them
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            raise InputError(
                f"{path} does not fit into memory: close other programs, or use a larger machine"
            ) from None
        raise InputError(f"{path} is not a checkpoint, or a broken one; {ADVICE}") from None
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise InputError(f"{path} is not a fairseq checkpoint: it holds no model")
    return check_content(state, path)


def check_content(state: dict, path: Path) -> dict:
    """Return the checkpoint if all of its content is allowed; raise InputError otherwise.

    Weights must be tensors. Settings must be plain values without references, with no more layers
    or width than there are weights.
    """
    fault = _fault_of_weights(state["model"]) or _fault_of_parts(state)
    if fault is None:
        settings = chain.from_iterable(_iterate_settings(state.get(p)) for p in ("args", "cfg"))
        limits = _Limits.of(state["model"])
        faults = (
            _fault_of_setting(name, value, number, limits)
            for number, (name, value) in enumerate(settings)
        )
        fault = next(filter(None, faults), None)
    if fault is not None:
        raise InputError(f"{path} cannot be loaded safely: {fault}")
    return state


class _Limits(NamedTuple):
    """The largest number of layers and width that settings may ask for."""

    layers: float
    width: float

    @classmethod
    def of(cls, weights: dict[str, Tensor]) -> "_Limits":
        elements = sum(weight.numel() for weight in weights.values())
        if any("flat_param" in name for name in weights):  # FSDP: all weights in one
            return cls(elements, elements)
        return cls(len(weights), elements)


def _fault_of_weights(weights: dict) -> str | None:
    for name, weight in weights.items():
        if not isinstance(name, str) or not isinstance(weight, Tensor):
            return f"its weight {name} is a {type(weight).__name__}"
    return None


def _fault_of_parts(state: dict) -> str | None:
    """Return what is wrong with the groups of settings and their names, or None."""
    args, cfg = state.get("args"), state.get("cfg")
    parts = [args, cfg, *(cfg.get(part) for part in ("model", "task") if isinstance(cfg, dict))]
    for part in parts:
        if not isinstance(part, (Namespace, dict, type(None))):
            return f"its settings hold a {type(part).__name__} as a part"
        named = vars(part) if isinstance(part, Namespace) else part or {}
        for name in ("arch", "task", "_name") if part is not cfg else ():
            if not isinstance(named.get(name), (str, type(None))):
                return f"its settings have a {type(named[name]).__name__} as {name}"
    return None


def _fault_of_setting(name: object, value: Any, number: int, limits: _Limits) -> str | None:
    if number >= MAX_SETTINGS:
        return f"its settings are more than {MAX_SETTINGS:,}, or contain themselves"
    if not isinstance(name, str):
        return f"its settings have a {type(name).__name__} instead of a name"
    if not isinstance(value, (str, int, float, type(None))):
        return f"its settings have a {type(value).__name__} as {name}, which is not a plain value"
    if isinstance(value, str) and "${" in value:
        return f"its settings contain a reference in {name} ({value[:80]})"
    for names, limit in ((LAYERS, limits.layers), (WIDTHS, limits.width)):
        if names.search(name) and (parsed := _parse_number(value)) is not None and parsed > limit:
            return f"its settings have {value} as {name}, and its weights are too few for it"
    return None


def _parse_number(value: Any) -> float | None:
    """Return the number that fairseq would read from a setting; None if it is not numeric."""
    if isinstance(value, str) and len(value) < 100:
        try:
            value = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            return None
    return value if isinstance(value, (int, float)) else None


def _iterate_settings(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each setting with its name, and None for each list or dictionary of settings."""
    stack: list[Iterator[tuple[Any, Any]]] = [iter([("", value)])]
    while stack:
        for name, inner in stack[-1]:
            inner = vars(inner) if isinstance(inner, Namespace) else inner
            if isinstance(inner, dict):
                stack.append(iter(inner.items()))
            elif isinstance(inner, (list, tuple)):
                stack.append((name, item) for item in inner)
            else:
                yield name, inner
                continue
            yield name, None
            break
        else:
            stack.pop()


def configuration(state: dict) -> tuple[dict[str, Any], str | None]:
    """Return the configuration in a checkpoint, and the name of the architecture.

    Its "model" is a Namespace. Older versions of fairseq stored their command line as `args`
    instead, which fairseq prefers where it exists. Raises InputError if both are missing.
    """
    if (args := state.get("args")) is not None:
        args = _namespace(args)
        task = {
            "_name": getattr(args, "task", "translation"),
            "data": getattr(args, "data", None),
            "source_lang": getattr(args, "source_lang", None),
            "target_lang": getattr(args, "target_lang", None),
        }
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
    namespace = Namespace()
    vars(namespace).update(settings or {})
    return namespace


def save(state: dict, path: Path) -> None:
    """Write a checkpoint atomically, and create its directory.

    Raises InputError if the disk is full.
    """
    with write_file_atomically(path) as temporary, open(temporary, "wb") as file:
        torch.save(state, file)
