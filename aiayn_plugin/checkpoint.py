"""fairseq's checkpoints: read without running code, averaged (§6.1), and written whole."""

import os
import pickle
from pathlib import Path

import torch


def load(path: Path) -> dict:
    """One fairseq checkpoint on the CPU, without running any code that it may hold.

    Raises ValueError where the file is no checkpoint of fairseq, or not a safe one.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise ValueError(f"{path} is no checkpoint that can be loaded safely: "
                         f"{str(error).splitlines()[0]}") from None
    if not isinstance(state, dict) or "model" not in state:
        raise ValueError(f"{path} is no fairseq checkpoint: it holds no model")
    return state


def save(state: dict, path: Path) -> None:
    """Write a checkpoint aside, then under its name; makes the directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(path.name + ".tmp")
    torch.save(state, aside)
    os.replace(aside, path)


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
