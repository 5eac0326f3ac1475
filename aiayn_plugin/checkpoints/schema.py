"""What a fairseq checkpoint may hold: weights, plain settings and plain training state."""

import ast
import math
import re
import unicodedata
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor

from ..text.lines import escape_unprintable
from .torch_file import DTYPES, FileError

#: Groups of settings; fairseq prefers args, the command line of old versions, to cfg.
SETTINGS = ("args", "cfg")
#: Tensors by name; few of fairseq's criteria have parameters.
TENSORS = ("model", "criterion")
#: Training state; the last line is from versions of fairseq before 0.6.
STATE = (
    *("optimizer_history", "task_state", "extra_state", "last_optimizer_state", "fsdp_metadata"),
    *("optimizer", "best_loss", "epoch", "batch_offset", "val_loss"),
)
#: Entries of the state, wherever they are, that fairseq uses without a check: counts, numbers that
#: may be missing or in a tensor (after training in several processes), and other types.
COUNTS = ("epoch", "iterations_in_epoch", "batch_offset", "num_updates", "num_runs")
NUMERIC_ENTRIES = ("best", "val_loss", "best_loss", "previous_training_time")
MAX_COUNT = 2**31
TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("lr_scheduler_state", "train_iterator", "extra_state", "metrics"), (dict,)),
    "AiaynTranslation": (dict,),  # our task's part of extra_state
    "optimizer_history": (list,),
    "criterion_name": (str,),
    "optimizer_name": (str,),
}
METERS = ("AverageMeter", "SumMeter", "TimeMeter", "StopwatchMeter")
ARRAYS = (np.generic, np.ndarray, Tensor)
PLAIN = (str, bytes, int, float, type(None), *ARRAYS)
#: Limits on the number of plain values, on the number of settings, and on nesting: a list may
#: contain itself, or occur a billion times. Limits on the characters of one setting and of all.
MAX_VALUES, MAX_SETTINGS, MAX_DEPTH = 1_000_000, 100_000, 20
MAX_TEXT, MAX_ALL_TEXT = 100_000, 1_000_000
#: Characters of a setting that fairseq may evaluate.
MAX_EXPRESSION = 1_000
#: Settings for the number of layers.
LAYERS = re.compile(r"^N$|layers$")
#: Paths, which may look like Python, and which fairseq does not evaluate.
PATHS = frozenset(
    "data save_dir restore_file user_dir log_file tensorboard_logdir finetune_from_model path "
    "results_path plasma_path wandb_project azureml_logging continue_once ema_seed_model".split()
)
#: Settings that name a component; fairseq builds file names from them.
COMPONENTS = frozenset(
    "_name arch task criterion optimizer lr_scheduler scoring bpe tokenizer".split()
)
#: Text without any of these is harmless even if evaluated.
OPERATORS = re.compile(r"[^\w\s,;:/@-]")
#: What fairseq may evaluate: literals, arithmetic and names, as in en-de,de-en.
LITERALS = (
    *(ast.Expression, ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.Load),
    *(ast.UnaryOp, ast.USub, ast.UAdd, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.BitOr),
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
    weights = state["model"].values()
    layers = sum(weight.numel() for weight in weights) if is_flat else len(weights)
    _check_settings({name: state[name] for name in SETTINGS if name in state}, layers)
    _check_state({name: state[name] for name in STATE if name in state})


def _check_tensors(state: dict) -> None:
    for part in TENSORS:
        if not isinstance(state.get(part) or {}, dict):
            raise FileError(f"its {part} is a {type(state[part]).__name__}")
        for name, tensor in (state.get(part) or {}).items():
            if not isinstance(tensor, Tensor):
                raise FileError(f"its weight {ascii(name):.80} is a {type(tensor).__name__}")
            if tensor.dtype not in DTYPES.values():  # safetensors may hold 8-bit floats
                raise FileError(f"its weight {ascii(name):.80} is of type {tensor.dtype}")
            _check_name(name)


def _check_name(name: Any) -> None:
    """Raise FileError for a name that could not be printed, for example on a terminal."""
    if not isinstance(name, str) or not name.isprintable() or len(name) > 500:
        raise FileError(f"it has the invalid name {ascii(name):.80}")


# ---- Settings


def _check_settings(groups: dict, max_layers: int) -> None:
    """Raise FileError unless settings are plain values, with at most max_layers layers."""
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
                raise FileError(f"its setting {name} has type {type(named[name]).__name__}")
    characters_left = MAX_ALL_TEXT
    for name, value in _iterate(groups, MAX_SETTINGS):
        if isinstance(value, (dict, Namespace, list, tuple)):
            continue
        if not isinstance(value, (str, int, float, type(None))):
            raise FileError(f"its setting {name} has type {type(value).__name__}")
        if isinstance(value, str):
            characters_left -= len(value)
            if characters_left < 0:
                raise FileError("its settings have too much text")
            _check_text(name, value)
        if LAYERS.search(name) and _parse_number(value) > max_layers:
            raise FileError(
                f"its setting {name} is {escape_unprintable(str(value)[:80])}, but it has weights "
                "for fewer layers"
            )


def _parse_number(value: Any) -> float:
    """Return the number that fairseq would read from a setting; 0 if it is not numeric."""
    try:
        value = ast.literal_eval(value.strip()) if isinstance(value, str) else value
        return float(value)
    except (ValueError, TypeError, SyntaxError, OverflowError, RecursionError, MemoryError):
        return 0


def _check_text(name: str, text: str) -> None:
    """Raise FileError for text that fairseq would evaluate to more than a literal."""
    where = f"{name}: {escape_unprintable(text[:80])}"
    # White space may be part of a path or of JSON; other control characters may be escapes.
    controls = (c for c in text if c not in "\t\n\r" and unicodedata.category(c) in ("Cc", "Cs"))
    if len(text) > MAX_TEXT or any(controls):
        raise FileError(f"its setting {name} has text that is too long or unprintable")
    if name in COMPONENTS and not re.fullmatch(r"[\w.-]{0,100}", text):
        raise FileError(f"its settings have an invalid name in {where}")
    if "${" in text:
        raise FileError(f"its settings contain an interpolation in {where}")
    if name in PATHS or not OPERATORS.search(text):
        return
    if len(text) > MAX_EXPRESSION:
        raise FileError(f"its settings have text that is too long in {where}")
    try:
        nodes = list(ast.walk(ast.parse(text.strip(), mode="eval")))
    except (SyntaxError, ValueError):
        return  # fairseq cannot evaluate it either
    except (RecursionError, MemoryError):
        raise FileError(f"its settings nest an expression too deeply in {where}") from None
    repetitions: float = 1
    for node in nodes:
        attribute = node.attr if isinstance(node, ast.Attribute) else ""
        if not isinstance(node, LITERALS) or attribute.startswith(("_", "environ")):
            raise FileError(f"its settings contain code in {where}")
        if isinstance(node, ast.Constant) and "$" in str(node.value):
            raise FileError(f"its settings contain an interpolation in {where}")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            constants = [n for n in (node.left, node.right) if isinstance(n, ast.Constant)]
            factors = [n.value for n in constants if isinstance(n.value, (int, float))]
            if not factors:
                raise FileError(f"its settings multiply something other than constants in {where}")
            repetitions *= max(math.prod(factors), 1)
    if not repetitions <= MAX_REPETITIONS:  # it may be NaN
        raise FileError(f"its settings repeat a list too often in {where}")


# ---- Training state


def _check_state(groups: dict) -> None:
    """Raise FileError unless the state is plain, and has the types that fairseq assumes."""
    for name, value in _iterate(groups, MAX_VALUES):
        is_valid = isinstance(value, (dict, list, tuple, *PLAIN))
        is_valid = is_valid and isinstance(value, TYPES.get(name, object))
        if name in COUNTS:
            has_no_data = getattr(value, "is_meta", False)
            is_valid = _is_number(value) and (has_no_data or 0 <= value < MAX_COUNT)
        if name in NUMERIC_ENTRIES:
            is_valid = value is None or _is_number(value)
        if not is_valid:
            raise FileError(f"its training state has an invalid {type(value).__name__} as {name}")
        if name in ("criterion_name", "optimizer_name"):
            _check_name(value)
    for name, meters in ((groups.get("extra_state") or {}).get("metrics") or {}).items():
        for meter in meters if isinstance(meters, list) else [None]:
            if not _is_meter(meter):
                raise FileError(f"its training state has an invalid meter in {name}")


def _is_number(value: Any) -> bool:
    """Return whether a value is a number, or a tensor or array of one."""
    if isinstance(value, (Tensor, np.ndarray)):
        return math.prod(value.shape) == 1
    return isinstance(value, (int, float, np.number))


def _is_meter(meter: Any) -> bool:
    """Return whether a value is a meter as fairseq stores it: priority, key, kind and numbers."""
    match meter:
        case [int(), str(), str() as kind, dict() as values] if kind in METERS:
            return all(isinstance(v, (int, float, *ARRAYS, type(None))) for v in values.values())
    return False


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
            if limit < 0:
                raise FileError("it has too many values")
            if len(stack) > MAX_DEPTH:
                raise FileError(f"it has values that are nested too deeply in {name:.80}")
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
