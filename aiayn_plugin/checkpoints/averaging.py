"""§6.1: one model from the mean of a run's last checkpoints."""

import re
from pathlib import Path

import torch

from ..errors import InputError
from .compatibility import dictionaries_of
from .safe_load import load

#: The checkpoints of --save-interval-updates and of epochs, with the number that orders them.
PATTERNS = {
    "updates": re.compile(r"checkpoint_\d+_(\d+)\.pt"),
    "epochs": re.compile(r"checkpoint(\d+)\.pt"),
}


def last_checkpoints(
    directory: Path, kind: str, count: int, upper_bound: int | None = None
) -> list[Path]:
    """Return the last `count` checkpoints of one of PATTERNS, oldest first.

    upper_bound: the last update or epoch that may count. Raises InputError if there are fewer, and
    OSError if the directory cannot be read.
    """
    if count < 1:
        raise InputError(f"cannot average {count} checkpoints")
    numbered = []
    for path in directory.iterdir():
        match = PATTERNS[kind].fullmatch(path.name)
        if match and int(match[1]) <= (upper_bound or int(match[1])):
            numbered.append((int(match[1]), path))
    if len(numbered) < count:
        raise InputError(f"{directory} holds {len(numbered)} checkpoints of {kind}, not {count}")
    return [path for _, path in sorted(numbered)[-count:]]


def average(paths: list[Path]) -> dict:
    """Return the last checkpoint, without its optimiser, with the mean of all their weights.

    Sums are in float64 and means in float32, whatever the precision of the weights. Weights that
    are no floating-point numbers must be equal in all. Raises InputError if names, shapes or
    dictionaries differ.
    """
    sums: dict[str, torch.Tensor] = {}
    state: dict = {}
    dictionaries: dict[str, str] = {}
    for path in paths:
        state = load(path)
        weights = state["model"]
        if not sums:
            sums = {name: torch.zeros_like(w, dtype=_wide(w)) for name, w in weights.items()}
        theirs = dictionaries_of(state.get("task_state") or {})
        if dictionaries and theirs and theirs != dictionaries:
            raise InputError(f"{path} was trained with other dictionaries than {paths[0]}")
        dictionaries = dictionaries or theirs
        if odd := sorted(sums.keys() ^ weights.keys()):
            raise InputError(f"{path} is of another model than {paths[0]}: {odd[0]} is not in both")
        for name, weight in weights.items():
            if weight.shape != sums[name].shape:
                raise InputError(
                    f"{path} is of another model than {paths[0]}: {name} is "
                    f"{tuple(weight.shape)}, not {tuple(sums[name].shape)}"
                )
            if weight.is_floating_point():
                sums[name] += weight
            elif path is not paths[0] and not torch.equal(weight, sums[name]):
                raise InputError(f"{path} and {paths[0]} differ in {name}, which has no mean")
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
