"""fairseq's checkpoints: read without running code, averaged (§6.1), and written whole."""

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

#: What torch says that the file wants to run.
UNSAFE = re.compile(r"GLOBAL (\S+)")


def load(path: Path) -> dict:
    """One fairseq checkpoint on the CPU, without running any code that it may hold.

    Raises ValueError where the file is no checkpoint of fairseq, or not a safe one.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except pickle.UnpicklingError as error:
        found = UNSAFE.search(str(error))
        why = f": it wants to run {found[1]}" if found else ""
        raise ValueError(f"{path} is no checkpoint that can be loaded safely{why}") from None
    except Exception:  # whatever a broken file leads to
        raise ValueError(f"{path} is no checkpoint, or a broken one") from None
    if not isinstance(state, dict) or "model" not in state:
        raise ValueError(f"{path} is no fairseq checkpoint: it holds no model")
    return state


def configuration(state: dict) -> tuple[dict[str, Any], str | None]:
    """The configuration of a checkpoint, of today's fairseq or of one that stored its command line
    as `args`, with the model's settings as a Namespace; and the name of the architecture.

    Raises ValueError where there is none.
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
        raise ValueError("the checkpoint holds no settings of its model (neither cfg nor args)")
    model = cfg["model"]
    return cfg, getattr(model, "_name", None) or getattr(model, "arch", None)


def save(state: dict, path: Path) -> None:
    """Write a checkpoint aside, then under its name; makes the directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(path.name + ".tmp")
    torch.save(state, aside)
    os.replace(aside, path)


@contextmanager
def written_aside(directory: Path) -> Iterator[Path]:
    """Inside `with`, an empty directory, which becomes `directory` when all went well.

    Raises ValueError where `directory` is there already.
    """
    if directory.exists():
        raise ValueError(f"{directory} is there already: give another --output")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}.") as aside:
        made = Path(aside) / directory.name
        made.mkdir()
        yield made
        made.rename(directory)


def average(paths: list[Path]) -> dict:
    """The last checkpoint, without its optimiser, with the mean of all checkpoints' weights.

    Sums are in float64 and the means in float32, whatever the weights were stored in. Weights
    that are no floating-point numbers must be equal in all. Raises ValueError where names or
    shapes differ.
    """
    sums: dict[str, torch.Tensor] = {}
    state: dict = {}
    for path in paths:
        state = load(path)
        weights = state["model"]
        if not sums:
            sums = {name: torch.zeros_like(w, dtype=_wide(w)) for name, w in weights.items()}
        if odd := sorted(sums.keys() ^ weights.keys()):
            raise ValueError(f"{path} is of another model than {paths[0]}: {odd[0]} is not in both")
        for name, weight in weights.items():
            if weight.shape != sums[name].shape:
                raise ValueError(
                    f"{path} is of another model than {paths[0]}: {name} is "
                    f"{tuple(weight.shape)}, not {tuple(sums[name].shape)}"
                )
            if weight.is_floating_point():
                sums[name] += weight
            elif path is not paths[0] and not torch.equal(weight, sums[name]):
                raise ValueError(f"{path} and {paths[0]} differ in {name}, which has no mean")
            else:
                sums[name] = weight
    state["model"] = {
        name: (total / len(paths)).float() if total.is_floating_point() else total
        for name, total in sums.items()
    }
    state["last_optimizer_state"] = None
    return state


def _wide(weight: torch.Tensor) -> torch.dtype:
    return torch.float64 if weight.is_floating_point() else weight.dtype
