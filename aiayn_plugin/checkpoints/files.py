"""fairseq's checkpoints as files: read without running code, written whole."""

import os
import pickle
import re
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ..errors import InputError

#: The buffer that a model keeps of its settings (compare.py), and its name in older checkpoints.
BUFFER, OLD_BUFFER = "settings_without_shape", "shapeless"
#: What torch reports of code that the file wants to run.
UNSAFE = re.compile(r"GLOBAL (\S+)")


def load(path: Path) -> dict:
    """Return one fairseq checkpoint on the CPU, without running any code that it may hold.

    Raises InputError if the file is no checkpoint of fairseq or not a safe one, and OSError if it
    cannot be read.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except pickle.UnpicklingError as error:
        unsafe = UNSAFE.search(str(error))
        why = f": it wants to run {unsafe[1]}" if unsafe else ""
        raise InputError(f"{path} is no checkpoint that can be loaded safely{why}") from None
    except Exception:  # a broken file may lead to any of them
        raise InputError(f"{path} is no checkpoint, or a broken one") from None
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise InputError(f"{path} is no fairseq checkpoint: it holds no model")
    state["model"] = todays_names(state["model"])
    return state


def todays_names(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the weights of a checkpoint under the names of this version."""
    return {BUFFER if name == OLD_BUFFER else name: weight for name, weight in weights.items()}


def configuration(state: dict) -> tuple[dict[str, Any], str | None]:
    """Return the configuration in a checkpoint, and the name of the architecture.

    The settings of the model are a Namespace in it. Older versions of fairseq stored their command
    line as `args` instead. Raises InputError if there is neither.
    """
    if state.get("cfg") is not None:
        cfg = dict(state["cfg"])
        model = cfg["model"]
        cfg["model"] = model if isinstance(model, Namespace) else Namespace(**(model or {}))
    elif (args := state.get("args")) is not None:
        task = {"_name": getattr(args, "task", "translation"), "data": getattr(args, "data", None),
                "source_lang": getattr(args, "source_lang", None),
                "target_lang": getattr(args, "target_lang", None)}
        cfg = {"model": args, "task": task}
    else:
        raise InputError("the checkpoint holds no settings of its model (neither cfg nor args)")
    model = cfg["model"]
    return cfg, getattr(model, "_name", None) or getattr(model, "arch", None)


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
