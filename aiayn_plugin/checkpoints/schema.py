"""What a checkpoint of fairseq may hold: weights, plain settings and plain training state."""

import ast
import math
import re
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor

from .torch_file import FileError

#: Groups of settings; fairseq prefers args, the command line of old versions, to cfg.
SETTINGS = ("args", "cfg")
#: Tensors by name. `criterion` has parameters of its own in few of fairseq's losses.
TENSORS = ("model", "criterion")
#: Training state; the last line is of versions of fairseq before 0.6.
STATE = (
    *("optimizer_history", "task_state", "extra_state", "last_optimizer_state", "shard_metadata"),
    *("optimizer", "best_loss", "epoch", "batch_offset", "val_loss"),
)
INTEGER, NUMBER = (int, np.integer), (int, float, np.number, type(None))
#: Types of those entries of the state that fairseq uses without a check, wherever they are.
TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("epoch", "iterations_in_epoch", "batch_offset", "num_updates"), INTEGER),
    **dict.fromkeys(("best", "val_loss", "best_loss", "previous_training_time"), NUMBER),
    **dict.fromkeys(("lr_scheduler_state", "train_iterator", "extra_state", "metrics"), (dict,)),
    "optimizer_history": (list,),
    "criterion_name": (str,),
    "optimizer_name": (str,),
}
METERS = ("AverageMeter", "SumMeter", "TimeMeter", "StopwatchMeter")
PLAIN = (str, bytes, int, float, type(None), np.generic, np.ndarray, Tensor)
#: Limits of a checkpoint's plain values, of its settings, and of how deep they are nested. A list
#: may occur in itself, or a billion times.
MAX_VALUES, MAX_SETTINGS, MAX_DEPTH = 1_000_000, 100_000, 20
MAX_TEXT = 10_000
#: Settings for the number of layers.
LAYERS = re.compile(r"^N$|layers$")
#: Settings whose text may look like Python, and which fairseq does not evaluate.
PATHS = re.compile(r"data|dir|path|file|from|project")
#: What fairseq may evaluate: literals and arithmetic. Text such as en-de,de-en consists of names.
LITERALS = (
    *(ast.Expression, ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.Load),
    *(ast.UnaryOp, ast.USub, ast.UAdd, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div),
    *(ast.Name, ast.Attribute),
)
#: The longest list that a setting may ask for, as in [(512, 3)] * 20.
MAX_REPETITIONS = 10_000


def check(state: Any) -> None:
    """Raise FileError unless the content of a file is a checkpoint that is safe to use."""
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise FileError("it is not a fairseq checkpoint: it holds no model")
    for name in state:
        if name not in (*SETTINGS, *TENSORS, *STATE):
            raise FileError(f"it holds {ascii(name):.80}, which fairseq does not store")
    _check_tensors(state)
    is_flat = any("flat_param" in name for name in state["model"])  # FSDP: many weights in one
    layers = math.inf if is_flat else len(state["model"])
    _check_settings({name: state[name] for name in SETTINGS if name in state}, layers)
    _check_state({name: state[name] for name in STATE if name in state})


def _check_tensors(state: dict) -> None:
    for part in TENSORS:
        if not isinstance(state.get(part) or {}, dict):
            raise FileError(f"its {part} is a {type(state[part]).__name__}")
        for name, tensor in (state.get(part) or {}).items():
            if not isinstance(tensor, Tensor):
                raise FileError(f"its weight {ascii(name):.80} is a {type(tensor).__name__}")
            _check_name(name)


def _check_name(name: Any) -> None:
    """Raise FileError for a name that could not be printed, for example on a terminal."""
    if not isinstance(name, str) or not name.isprintable() or len(name) > 500:
        raise FileError(f"it has {ascii(name):.80} as a name")


# ---- Settings


def _check_settings(groups: dict, max_layers: float) -> None:
    """Raise FileError unless settings are plain values, for at most max_layers."""
    cfg = groups.get("cfg")
    parts = [(name, groups.get(name)) for name in SETTINGS]
    if isinstance(cfg, dict):
        parts += [(name, cfg.get(name)) for name in ("model", "task")]
    for part, settings in parts:
        if not isinstance(settings, (Namespace, dict, type(None))):
            raise FileError(f"its settings hold a {type(settings).__name__} as {part}")
        named = vars(settings) if isinstance(settings, Namespace) else settings or {}
        for name in ("arch", "task", "_name") if part != "cfg" else ():
            if not isinstance(named.get(name), (str, type(None))):
                raise FileError(f"its settings have a {type(named[name]).__name__} as {name}")
    for name, value in _iterate(groups, MAX_SETTINGS):
        if isinstance(value, (dict, Namespace, list, tuple)):
            continue
        if not isinstance(value, (str, int, float, type(None))):
            raise FileError(f"its settings have a {type(value).__name__} as {name}")
        if isinstance(value, str):
            _check_text(name, value)
        if LAYERS.search(name) and _number(value) > max_layers:
            raise FileError(f"its settings have {value} as {name}, and its weights are too few")


def _number(value: Any) -> float:
    """Return the number that fairseq would read from a setting; 0 if it is not numeric."""
    try:
        value = ast.literal_eval(value.strip()) if isinstance(value, str) else value
    except (ValueError, SyntaxError):
        return 0
    return value if isinstance(value, (int, float)) else 0


def _check_text(name: str, text: str) -> None:
    """Raise FileError for a text that fairseq would evaluate to more than a literal."""
    shown = f"{name}: {text:.80}"
    if len(text) > MAX_TEXT or not text.isprintable():
        raise FileError(f"its settings have text that is too long or unprintable as {name}")
    try:
        nodes = list(ast.walk(ast.parse(text.strip(), mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        nodes = []  # fairseq cannot evaluate it either
    if "${" in text or any("$" in str(getattr(node, "value", "")) for node in nodes):
        raise FileError(f"its settings contain a reference in {shown}")
    repetitions = 1
    for node in nodes:
        identifier = getattr(node, "id", getattr(node, "attr", ""))
        if not isinstance(node, LITERALS) or identifier.startswith(("_", "environ")):
            if not PATHS.search(name):
                raise FileError(f"its settings contain code in {shown}")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            factors = [getattr(factor, "value", 1) for factor in (node.left, node.right)]
            repetitions *= math.prod(factor for factor in factors if isinstance(factor, int))
    if repetitions > MAX_REPETITIONS:
        raise FileError(f"its settings repeat a list too often in {shown}")


# ---- Training state


def _check_state(groups: dict) -> None:
    """Raise FileError unless the state is plain, and has the types that fairseq assumes."""
    for name, value in _iterate(groups, MAX_VALUES):
        plain = isinstance(value, (dict, list, tuple, *PLAIN))
        if not plain or not isinstance(value, TYPES.get(name, object)):
            raise FileError(f"its training state has a {type(value).__name__} as {name}")
    for name, meters in ((groups.get("extra_state") or {}).get("metrics") or {}).items():
        for meter in meters if isinstance(meters, list) else [None]:
            if not isinstance(meter, (list, tuple)) or len(meter) != 4 or meter[2] not in METERS:
                raise FileError(f"its training state has an unknown meter in {name}")


def _iterate(group: dict, limit: int) -> Iterator[tuple[str, Any]]:
    """Yield the values in a dictionary at all depths with their names.

    The items of a list "a" are named "a[]". Raises FileError for names that are not text or
    integers, for more values than the limit, and for lists and dictionaries nested too deeply, or
    in themselves.
    """
    stack: list[Iterator[tuple[Any, Any]]] = [iter(group.items())]
    while stack:
        for name, value in stack[-1]:
            limit -= 1
            if limit < 0 or len(stack) > MAX_DEPTH:
                raise FileError(f"it has too many values, or {name} contains itself")
            yield name, value
            if isinstance(value, Namespace):
                value = vars(value)
            if isinstance(value, dict):
                for key in value:
                    _check_name(str(key) if isinstance(key, int) else key)
                stack.append(iter([(str(key), inner) for key, inner in value.items()]))
                break
            if isinstance(value, (list, tuple)):
                stack.append(iter([(f"{name}[]", inner) for inner in value]))
                break
        else:
            stack.pop()
