"""Patches that keep untrusted files from running code.

Every checkpoint that fairseq opens passes `check_before_loading` before anything is built from it.
"""

import ast
import functools
import logging
import operator
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairseq.file_io import PathManager
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

from ...checkpoints import safe_load
from ...checkpoints.numpy_unpickling import with_arrays
from ...errors import InputError

logger = logging.getLogger(__name__)

UNSAFE_LOADING = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


# ---- Strings that fairseq evaluates

#: Maximum length of a setting: characters of a string, entries of a list.
MAX_LENGTH = 1_000
ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def fairseq_modules() -> list[Any]:
    """Return the modules of fairseq that have been imported."""
    modules = [
        module
        for name, module in sys.modules.items()
        if name.partition(".")[0] in ("fairseq", "fairseq_cli")
    ]
    main = sys.modules["__main__"]  # python -m fairseq_cli.validate
    if str(getattr(main.__spec__, "name", "")).startswith("fairseq_cli."):
        modules.append(main)
    return modules


def use_literals(evaluate: Any) -> Callable[[Any], Any]:
    """Replace `eval` in a module of fairseq with one that accepts only literals."""
    return literal


def evaluate_only_literals() -> None:
    """Replace `eval` in the modules of fairseq that were imported after the plugin, too."""
    for module in fairseq_modules():
        vars(module).setdefault("eval", literal)


def literal(text: Any) -> Any:
    """Return the value of a literal, or of arithmetic with literals: [(512, 3)] * 2.

    Raises InputError for any other string, and TypeError, as eval does, for other types.
    """
    if not isinstance(text, str):
        raise TypeError("eval() arg 1 must be a string, bytes or code object")
    try:
        if len(text) > MAX_LENGTH:
            raise ValueError
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (ValueError, TypeError, SyntaxError, ArithmeticError, RecursionError, MemoryError):
        raise InputError(
            f"{text[:200]!r} is not a valid setting: give numbers, strings, or lists of them, such "
            "as [(512, 3)] * 20"
        ) from None


def _value(node: ast.expr) -> Any:
    if not isinstance(node, ast.BinOp):
        return _collection(node)
    left, right = _value(node.left), _value(node.right)
    numbers = [x for x in (left, right) if isinstance(x, (int, float))]
    lists = [x for x in (left, right) if isinstance(x, (list, tuple))]
    size = sum(map(len, lists)) * (numbers[0] if lists and numbers else 1)
    if len(numbers) + len(lists) < 2 or type(node.op) not in ARITHMETIC or size > MAX_LENGTH:
        raise ValueError
    return ARITHMETIC[type(node.op)](left, right)


def _collection(node: ast.expr) -> Any:
    """Return the value of a literal that is not an arithmetic expression."""
    if isinstance(node, ast.List):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_value(item) for item in node.elts)
    if isinstance(node, ast.Dict) and None not in node.keys:
        return {
            _value(key): _value(item)  # type: ignore[arg-type]
            for key, item in zip(node.keys, node.values, strict=True)
        }
    return ast.literal_eval(node)


# ---- Checkpoints


def ignore_unsafe_loading() -> None:
    """Keep torch's weights_only on, whatever the environment variable says."""
    if os.environ.pop(UNSAFE_LOADING, None):
        logger.warning(
            "%s is ignored: aiayn_plugin never loads a checkpoint that may run code", UNSAFE_LOADING
        )


def check_before_loading(load: Callable) -> Callable:
    """Wrap one of fairseq's functions that load a checkpoint: accept plain data only.

    The wrapper raises InputError for a file that is broken, is not a checkpoint, or has settings
    that are not plain values.
    """

    @functools.wraps(load)
    def load_checked(path, *args, **kwargs):
        evaluate_only_literals()  # in modules imported since
        local = Path(PathManager.get_local_path(str(path)))
        safe_load.check_intact(local)
        state = safe_load.glance(local)
        if state.get("args") is not None:  # fairseq looks up the names in it immediately
            _check_names(state, path)
        del state
        try:
            with safe_load.plain_data():
                return with_arrays(load(path, *args, **kwargs))
        except (InputError, OSError):
            raise
        except Exception as error:  # a malformed file may cause any of them
            raise InputError(
                f"{path} is not a checkpoint that fairseq can read: "
                f"{type(error).__name__}: {_first_line(error)}"
            ) from error

    return load_checked


def _check_names(state: dict, path: str) -> None:
    """Raise InputError if a checkpoint names a model or a task that is not registered."""
    try:
        cfg, architecture = safe_load.configuration(state)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    task = (cfg.get("task") or {}).get("_name")
    for kind, name, known in (
        ("model", architecture, {**MODEL_REGISTRY, **ARCH_MODEL_REGISTRY}),
        ("task", task, TASK_REGISTRY),
    ):
        if name not in known:
            raise InputError(
                f"{path}: fairseq has no {kind} {str(name)[:80]!r}: give the --user-dir that "
                "registers it"
            )


def report_unusable_model(load: Callable) -> Callable:
    """Wrap load_model_ensemble_and_task: raise InputError for a model that cannot be built."""

    @functools.wraps(load)
    def load_model_ensemble_and_task(filenames, *args, **kwargs):
        try:
            return load(filenames, *args, **kwargs)
        except InputError as error:
            raise _error_about(filenames, str(error)) from error
        except OSError as error:
            if all(map(os.path.isfile, filenames)):
                raise
            raise InputError(
                f"{error}: give a checkpoint, such as checkpoint_best.pt in a run's --save-dir"
            ) from error
        except Exception as error:
            for path in filter(os.path.isfile, filenames):
                _check_names(safe_load.glance(Path(path)), path)
            raise _error_about(
                filenames, f"its model cannot be built: {_describe_error(error)}"
            ) from error

    return load_model_ensemble_and_task


def _describe_error(error: Exception) -> str:
    """Return what an error of fairseq or torch says about a checkpoint, in one line."""
    message = str(error)
    if "Error(s) in loading state_dict" in message:
        first = message.splitlines()[1:2] or [""]
        return f"its weights do not fit its settings: {first[0].strip()}"
    return f"{type(error).__name__}: {_first_line(error)[:500]}"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


def _error_about(filenames: list[str], message: str) -> InputError:
    """Return an InputError, prefixed with the files unless the message names one."""
    named = any(name in message for name in filenames)
    return InputError(message if named else f"{', '.join(filenames)}: {message}")


# ---- Archives


def unpack_safely(load: Callable) -> Callable:
    """Wrap fairseq's load_archive_file: refuse archives that write outside their own directory.

    from_pretrained unpacks the archive that it is given, and a path in it may
    point anywhere, for example to a user's start-up files.
    """

    @functools.wraps(load)
    def load_archive_file(archive_file):
        inside = getattr(tarfile, "data_filter", None)
        before = vars(tarfile.TarFile).get("extraction_filter")
        try:
            if os.path.isfile(archive_file):
                _check_members(archive_file)
                if inside is None:
                    raise InputError(
                        f"{archive_file} cannot be unpacked safely by this Python: "
                        "update it (to 3.10.12, 3.11.4 or later), or unpack it "
                        "yourself"
                    )
            tarfile.TarFile.extraction_filter = inside and staticmethod(inside)
            path = load(archive_file)
        except (tarfile.TarError, OSError, EOFError) as error:
            raise InputError(
                f"{archive_file} cannot be unpacked as an archive: {_first_line(error)}"
            ) from error
        finally:
            tarfile.TarFile.extraction_filter = before
        if path is None:
            raise InputError(f"{archive_file} is neither a directory nor an archive")
        return path

    return load_archive_file


def _check_members(archive: str) -> None:
    """Raise InputError for an archive whose paths lead outside it, or that exceeds the disk."""
    with tarfile.open(archive) as members:
        size = 0
        for member in members:
            parts = member.name.split("/")
            if member.name.startswith("/") or any(part.startswith("..") for part in parts):
                raise InputError(
                    f"{archive} cannot be unpacked as an archive: it holds the path "
                    f"{member.name[:80]!r}"
                )
            size += member.size
    if size > shutil.disk_usage(tempfile.gettempdir()).free:
        raise InputError(f"{archive} is too large to unpack: {size:,} bytes")
