"""Mends of what fairseq does with files of strangers: it may run no code that they hold.

Every checkpoint that fairseq opens by its path passes `checked` before anything is built from it.
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

from fairseq import checkpoint_utils, file_utils
from fairseq.file_io import PathManager
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

from ...checkpoints import safe_load as files
from ...checkpoints.numpy_unpickling import with_arrays
from ...errors import InputError

logger = logging.getLogger(__name__)

UNSAFE_LOADING = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


def trust_no_file() -> None:
    """Apply the mends of this file."""
    evaluate_only_literals()
    load_only_weights()
    for name in ("load_checkpoint_to_cpu", "load_ema_from_checkpoint"):
        setattr(checkpoint_utils, name, checked(getattr(checkpoint_utils, name)))
    checkpoint_utils.load_model_ensemble_and_task = with_one_line(
        checkpoint_utils.load_model_ensemble_and_task
    )
    file_utils.load_archive_file = inside_of_its_directory(file_utils.load_archive_file)


# ---- Strings that fairseq evaluates

#: A string that is longer, or a list that gets longer, is no setting of a model.
LONGEST = 1_000
ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def evaluate_only_literals() -> None:
    """Give each module of fairseq an `eval` that knows literals only.

    fairseq evaluates strings as Python, also those that a checkpoint holds: the layers of fconv,
    the rates of --lr, --model-overrides. Can go when fairseq uses ast.literal_eval.
    """
    modules = [
        module
        for name, module in sys.modules.items()
        if name.partition(".")[0] in ("fairseq", "fairseq_cli")
    ]
    main = sys.modules["__main__"]  # python -m fairseq_cli.validate
    if str(getattr(main.__spec__, "name", "")).startswith("fairseq_cli."):
        modules.append(main)
    for module in modules:
        vars(module).setdefault("eval", literal)


def literal(text: Any) -> Any:
    """Return the value of a literal, or of a sum or product of literals: [(512, 3)] * 2.

    Raises InputError for everything else that Python could evaluate, and TypeError, as eval does,
    for what is no string.
    """
    if not isinstance(text, str):
        raise TypeError("eval() arg 1 must be a string, bytes or code object")
    try:
        if len(text) > LONGEST:
            raise ValueError
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (ValueError, TypeError, SyntaxError, ArithmeticError, RecursionError, MemoryError):
        raise InputError(
            f"{text[:200]!r} cannot be a setting: give numbers, texts, or lists of "
            "them, such as [(512, 3)] * 20"
        ) from None


def _value(node: ast.expr) -> Any:
    if not isinstance(node, ast.BinOp):
        return _collection(node)
    left, right = _value(node.left), _value(node.right)
    numbers = [x for x in (left, right) if isinstance(x, (int, float))]
    lists = [x for x in (left, right) if isinstance(x, (list, tuple))]
    size = sum(map(len, lists)) * (numbers[0] if lists and numbers else 1)
    if len(numbers) + len(lists) < 2 or type(node.op) not in ARITHMETIC or size > LONGEST:
        raise ValueError
    return ARITHMETIC[type(node.op)](left, right)


def _collection(node: ast.expr) -> Any:
    """Return what has no operator, or only ones in its items."""
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


def load_only_weights() -> None:
    """Keep torch's weights_only on, whatever the environment says.

    torch would load everything, and so run what a pickle wants. Can go when torch has no such
    variable.
    """
    if os.environ.pop(UNSAFE_LOADING, None):
        logger.warning(
            "%s is ignored: aiayn_plugin loads no checkpoint that may run code", UNSAFE_LOADING
        )


def checked(load: Callable) -> Callable:
    """Return a function of fairseq's that loads a checkpoint, and accepts only plain data.

    fairseq takes what a file holds as it is. Raises InputError for a file that is broken, that is
    no checkpoint, or whose settings are no plain values. Can go when fairseq checks them.
    """

    @functools.wraps(load)
    def load_checked(path, *args, **kwargs):
        evaluate_only_literals()  # in what was imported since
        local = Path(PathManager.get_local_path(str(path)))
        files.check_intact(local)
        state = files.glance(local)
        if state.get("args") is not None:  # fairseq looks its names up at once
            _check_names(state, path)
        del state
        try:
            with files.plain_data():
                return with_arrays(load(path, *args, **kwargs))
        except (InputError, OSError):
            raise
        except Exception as error:  # a strange file may lead to any of them
            raise InputError(
                f"{path} is no checkpoint that fairseq can read: "
                f"{type(error).__name__}: {_first_line(error)}"
            ) from error

    return load_checked


def _check_names(state: dict, path: str) -> None:
    """Raise InputError if a checkpoint names a model or a task that nobody registered."""
    try:
        cfg, architecture = files.configuration(state)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    task = (cfg.get("task") or {}).get("_name")
    for kind, name, known in (
        ("model", architecture, {**MODEL_REGISTRY, **ARCH_MODEL_REGISTRY}),
        ("task", task, TASK_REGISTRY),
    ):
        if name not in known:
            raise InputError(
                f"{path}: fairseq has no {kind} {str(name)[:80]!r}: give the --user-dir that has it"
            )


def with_one_line(load: Callable) -> Callable:
    """Return load_model_ensemble_and_task with an InputError for a model that cannot be built.

    fairseq ends with an error of the library that met the fault first. Can go when it says what is
    wrong.
    """

    @functools.wraps(load)
    def load_model_ensemble_and_task(filenames, *args, **kwargs):
        try:
            return load(filenames, *args, **kwargs)
        except InputError as error:
            raise _of(filenames, str(error)) from error
        except OSError as error:
            if all(map(os.path.isfile, filenames)):
                raise
            raise InputError(
                f"{error}: give a checkpoint, such as checkpoint_best.pt in a run's --save-dir"
            ) from error
        except Exception as error:
            logger.debug("this is where the model could not be built", exc_info=True)
            for path in filter(os.path.isfile, filenames):
                _check_names(files.glance(Path(path)), path)
            raise _of(filenames, f"its model cannot be built: {_fault(error)}") from error

    return load_model_ensemble_and_task


def _fault(error: Exception) -> str:
    """Return what an error of fairseq or torch says about a checkpoint."""
    message = str(error)
    if "Error(s) in loading state_dict" in message:
        first = message.splitlines()[1:2] or [""]
        return f"its weights do not fit its settings: {first[0].strip()}"
    return f"{type(error).__name__}: {_first_line(error)[:500]}"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


def _of(filenames: list[str], message: str) -> InputError:
    """Return the error with the names of the files, unless it names them."""
    named = any(name in message for name in filenames)
    return InputError(message if named else f"{', '.join(filenames)}: {message}")


# ---- Archives


def inside_of_its_directory(load: Callable) -> Callable:
    """Return fairseq's load_archive_file for archives that unpack inside of their own directory.

    from_pretrained unpacks what it is given, and moves what stands under the first part of all
    names. A path in an archive may lead anywhere, to a user's start-up files too. Can go when
    fairseq looks at the names, and Python 3.14, which refuses links that lead out, is the oldest.
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
                f"{archive_file} is no archive that can be unpacked: {_first_line(error)}"
            ) from error
        finally:
            tarfile.TarFile.extraction_filter = before
        if path is None:
            raise InputError(f"{archive_file} is neither a directory nor an archive")
        return path

    return load_archive_file


def _check_members(archive: str) -> None:
    """Raise InputError for an archive with a name that leads out of it, or without room for it."""
    with tarfile.open(archive) as members:
        size = 0
        for member in members:
            parts = member.name.split("/")
            if member.name.startswith("/") or any(part.startswith("..") for part in parts):
                raise InputError(
                    f"{archive} is no archive that can be unpacked: it holds the path "
                    f"{member.name[:80]!r}"
                )
            size += member.size
    if size > shutil.disk_usage(tempfile.gettempdir()).free:
        raise InputError(f"{archive} is too large to be unpacked: {size:,} bytes")
