"""Patches that keep untrusted files from running code, or opening other files.

Every checkpoint that fairseq opens passes `check_before_loading` before anything is built from it.
"""

import functools
import os
import re
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY
from omegaconf import OmegaConf

from ...checkpoints import safe_load
from ...errors import InputError
from .errors import describe_error

#: Settings of fairseq's models, tasks, criteria and search that name files: embeddings, pretrained
#: models, dictionaries, configurations, and files to write.
FILES = re.compile(
    r"(path|from|checkpoint|dict|dictionary|vocab|codes|url|yaml|json|file|dir|logdir|manifest|model"
    r"|predictions|replace_unk|offline_shard_ratio)$|^pretrained_|^fixed_dictionary"
)
#: Settings that match FILES but are not opened when a checkpoint is loaded.
NEVER_OPENED = {"plasma_path", "restore_file", "save_dir", "user_dir", "finetune_from_model"}
#: Settings that match FILES but must be strings. A checkpoint's weights replace the first two.
REQUIRED = {"w2v_path", "hubert_path", "lang_to_offline_shard_ratio"}
_torch_load_lock = threading.Lock()


# ---- Checkpoints


def check_before_loading(load: Callable) -> Callable:
    """Wrap one of fairseq's functions that load a checkpoint: accept plain data only.

    The wrapper raises InputError for a file that is broken, is not a checkpoint, or has settings
    that are not plain values.
    """

    @functools.wraps(load)
    def load_checked(path, *args, **kwargs):
        state = safe_load.load(Path(path))
        if state.get("args") is not None:  # fairseq looks up the names in it immediately
            _check_names(state, path)
        _clear_file_names(state)
        _add_missing_groups(state)
        try:
            with _patch_torch_load(state):
                return load(path, *args, **kwargs)
        except (InputError, OSError):
            raise
        except Exception as error:  # settings and state may be malformed in any way
            raise InputError(
                f"{path} is not a checkpoint that fairseq can read: {describe_error(error)}"
            ) from error

    return load_checked


@contextmanager
def _patch_torch_load(state: dict) -> Iterator[None]:
    """Give fairseq a checkpoint that was read and checked, instead of what torch.load reads."""
    with _torch_load_lock:
        load = torch.load
        torch.load = lambda *args, **kwargs: state
        try:
            yield
        finally:
            torch.load = load


def _clear_file_names(state: dict) -> None:
    """Clear paths and URLs in a checkpoint's settings, so that loading does not open them.

    Its weights replace those of a pretrained model or of embeddings. For other files, such as BPE
    codes for fairseq's hub interface, the caller passes the path.
    """
    groups = [state.get("args"), state.get("cfg")]
    for group in groups:
        settings = _as_dict(group)
        settings.update({name: None for name in ("bpe", "tokenizer") if name in settings})
    while groups:
        settings = _as_dict(groups.pop())
        for name, value in settings.items():
            if isinstance(value, str) and FILES.search(name) and name not in NEVER_OPENED:
                settings[name] = "" if name in REQUIRED else None
        groups += [value for value in settings.values() if isinstance(value, (dict, Namespace))]


def _add_missing_groups(state: dict) -> None:
    """Add the groups of settings that fairseq's hub interface reads, with fairseq's defaults.

    A model that was converted or imported has only the groups of its model and task.
    fairseq-validate sets the path of the data only if the task has such a setting.
    """
    if isinstance(cfg := state.get("cfg"), dict):
        for name, field in FairseqConfig.__dataclass_fields__.items():
            if name not in cfg and is_dataclass(field.default):
                cfg[name] = OmegaConf.to_container(OmegaConf.structured(field.default))
            cfg.setdefault(name)
        if isinstance(cfg["task"], dict):
            cfg["task"].setdefault("data")


def _as_dict(group: Any) -> dict[str, Any]:
    """Return the settings of a group, to change in place."""
    settings = vars(group) if isinstance(group, Namespace) else group
    return settings if isinstance(settings, dict) else {}


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
        paths = [Path(name) for name in filenames]
        are_files = all(path.is_file() for path in paths)  # false if names lack a shard's suffix
        try:
            with safe_load.limit_memory(*paths) if are_files else nullcontext():
                return load(filenames, *args, **kwargs)
        except InputError as error:
            raise _error_about(filenames, str(error)) from error
        except OSError as error:
            if error.filename and all(map(os.path.isfile, filenames)):
                raise  # a file other than the checkpoints
            raise InputError(
                f"{error}: give a checkpoint, such as checkpoint_best.pt in a run's --save-dir"
            ) from error
        except Exception as error:
            for path in filter(os.path.isfile, filenames):
                _check_names(safe_load.load(Path(path), with_data=False), path)
            raise _error_about(
                filenames, f"its model cannot be built: {_describe_error(error)}"
            ) from error

    return load_model_ensemble_and_task


def _describe_error(error: Exception) -> str:
    """Return what an error of fairseq or torch says about a checkpoint, in one line."""
    message = str(error)
    if isinstance(error, MemoryError) or "allocate memory" in message:
        return "its settings require more memory than its weights need"
    if "Error(s) in loading state_dict" in message:
        first = message.splitlines()[1:2] or [""]
        return f"its weights do not fit its settings: {first[0].strip():.300}"
    return describe_error(error)


def _error_about(filenames: list[str], message: str) -> InputError:
    """Return an InputError, prefixed with the files unless the message names one."""
    named = any(name in message for name in filenames)
    return InputError(message if named else f"{', '.join(filenames)}: {message}")


# ---- Archives


def require_directory(load: Callable) -> Callable:
    """Wrap fairseq's load_archive_file: accept a directory only.

    from_pretrained would unpack an archive, given or downloaded, without checking its paths, delete
    it, and move the common prefix of the paths, which may be any of the user's directories.
    """

    @functools.wraps(load)
    def load_archive_file(archive_file):
        if not os.path.isdir(archive_file):
            raise InputError(
                f"{archive_file} is not a directory: unpack it first if it is an archive"
            )
        return load(archive_file)

    return load_archive_file
