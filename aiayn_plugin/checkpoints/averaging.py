"""§6.1: one model from the mean of a run's last checkpoints."""

import math
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from ..errors import InputError
from .compatibility import Identity, find_differing_shape
from .safe_load import load

#: File names of --save-interval-updates and epoch checkpoints; sorted by the captured number.
PATTERNS = {
    "updates": re.compile(r"checkpoint_\d+_(\d+)\.pt"),
    "epochs": re.compile(r"checkpoint(\d+)\.pt"),
}


def find_last_checkpoints(
    directory: Path, kind: str, count: int, upper_bound: int | None = None
) -> list[Path]:
    """Return the last `count` checkpoints whose names match PATTERNS[kind], oldest first.

    upper_bound: the last update or epoch to consider. Raises InputError if there are fewer, and
    OSError if the directory cannot be read.
    """
    if count < 1:
        raise InputError(f"cannot average {count} checkpoints: give at least 1")
    names = sorted(path.name for path in directory.iterdir())
    matches = {
        name: [match for match in map(pattern.fullmatch, names) if match]
        for name, pattern in PATTERNS.items()
    }
    bound = math.inf if upper_bound is None else upper_bound
    matches[kind] = [match for match in matches[kind] if int(match[1]) <= bound]
    numbered = sorted((int(match[1]), match[0]) for match in matches[kind])
    if len(numbered) < count:
        advice = [f"--num-{name[:-1]}-checkpoints {len(x)}" for name, x in matches.items() if x]
        advice += [f"--inputs {directory / name}" for name in names if name == "checkpoint_last.pt"]
        limit = "" if upper_bound is None else f" up to {upper_bound}"
        raise InputError(
            f"{directory} holds {len(numbered)} {kind[:-1]} checkpoint"
            f"{'s' * (len(numbered) != 1)}{limit}, not {count}: "
            + (f"give {' or '.join(advice)}" if advice else "give the --save-dir of a training run")
        )
    return [directory / name for _, name in numbered[-count:]]


def average(paths: list[Path]) -> dict:
    """Return the last checkpoint with the mean of all weights, without its optimizer's state.

    Sums are in float64 and means in float32, whatever the precision of the weights; integer
    tensors must be equal in all checkpoints. Raises InputError if names, shapes, settings or
    dictionaries differ.
    """
    sums: dict[str, Tensor] = {}
    first = Identity()
    for path in paths:
        state, both = load(path), f"{path} and {paths[0]}"
        weights, identity = state["model"], Identity.read(state.get("task_state"))
        if not sums:
            first = identity
            sums = {
                name: torch.zeros_like(w, dtype=torch.float64) if w.is_floating_point() else w
                for name, w in weights.items()
            }
        elif identity != first:
            raise InputError(
                f"{both} were trained with different settings or dictionaries: give checkpoints of "
                "one run"
            )
        if difference := find_differing_shape(sums, weights):
            name, shape, other = difference
            raise InputError(
                f"{both} hold different models: {name} is {other or 'missing'} in {path.name} and "
                f"{shape or 'missing'} in {paths[0].name}"
            )
        _add(weights, sums, both)
    means = {
        name: (total / len(paths)).float() if total.is_floating_point() else total
        for name, total in sums.items()
    }
    _share_tied(means, weights)
    state["model"] = means
    state["last_optimizer_state"] = None
    for name in ("ema", "ema_fp32_params"):  # the last checkpoint's, from --store-ema
        (state.get("extra_state") or {}).pop(name, None)
    return state


def _add(weights: Mapping[str, Tensor], sums: Mapping[str, Tensor], both: str) -> None:
    """Add weights to their sums. Raises InputError, about both files, for unequal integers."""
    for name, weight in weights.items():
        total = sums[name]
        if weight.is_floating_point() and total.is_floating_point():
            total += weight
        elif weight.dtype != total.dtype or not torch.equal(weight, total):
            raise InputError(
                f"{both} disagree on {name}, which cannot be averaged: it is an integer tensor, or "
                "its types differ"
            )


def _share_tied(means: dict[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    """Store the mean of a tied matrix only once, as checkpoints store the matrix."""
    twins: dict[tuple, str] = {}
    for name, weight in weights.items():
        twin = twins.setdefault((weight.data_ptr(), weight.shape, weight.dtype), name)
        if torch.equal(means[name], means[twin]):
            means[name] = means[twin]
