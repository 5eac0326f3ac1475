"""Run directories, and bundles: run directories packed for other machines."""

import shutil
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..atomic import write_directory_atomically
from ..errors import InputError
from ..paper import ARCHITECTURES
from ..text.manifest import read_verified_dictionary, write_manifest
from ..text.pipeline import load_subwords
from ..text.settings import EXAMPLES_FILE, PAIRS_FILE, SETTINGS_FILE, TextSettings
from . import safetensors_file
from .compatibility import Identity
from .safe_load import configuration, load

#: The checkpoint of a run directory; a bundle has `safetensors_file.WEIGHTS_FILE` instead.
MODEL_FILE = "model.pt"
#: MODEL_DIR for the model in the package, unless a directory of this name exists.
DEMO_NAME, DEMO = "demo", Path(__file__).resolve().parent.parent / "demo"
NOTE = """This directory holds a model for `aiayn {command}` ({source} to {target}).

A model retains information from its training text: check the licence of that text before you
pass the model on. The code of aiayn-plugin is under the MIT licence, which does not cover this
model.
"""


def locate(run_dir: Path, checkpoint: Path | None = None) -> tuple[Path, Path]:
    """Return the checkpoint of a run directory, and its data directory.

    The data directory contains the dictionaries, the codes and text.json: it is data/ in a run
    directory, and the bundle itself in a bundle. `demo` is the model in the package, unless a
    directory has this name. Raises InputError if there is no checkpoint.
    """
    if run_dir == Path(DEMO_NAME) and not run_dir.exists():
        run_dir = DEMO
    shared = run_dir / safetensors_file.WEIGHTS_FILE
    checkpoint = checkpoint or (shared if shared.is_file() else run_dir / MODEL_FILE)
    if not run_dir.is_dir():
        raise InputError(f"{run_dir} is not a directory: give a run directory or a bundle")
    if not checkpoint.is_file():
        raise InputError(
            f"{checkpoint} is missing: after training, make it with aiayn average --inputs "
            f"{run_dir}/checkpoints --num-update-checkpoints 5 --output {checkpoint}"
        )
    data = run_dir / "data"
    return checkpoint, data if data.is_dir() else run_dir


def task_settings(
    state: dict[str, Any],
    checkpoint: Path,
    architectures: Collection[str] = ("aiayn_transformer", *ARCHITECTURES),
) -> dict[str, Any]:
    """Return the task settings in the state of a checkpoint.

    Raises InputError unless it is a translation model with one of these architectures.
    """
    try:
        cfg, architecture = configuration(state)
    except InputError as error:
        raise InputError(f"{checkpoint}: {error}") from None
    if architecture not in architectures:
        raise InputError(
            f"{checkpoint}: the architecture {architecture} is not one of the plugin's, which "
            "aiayn bundle and export need; aiayn translate accepts the --user-dir that registers "
            "it, and aiayn convert converts fairseq's transformer"
        )
    task = cfg["task"]
    if task.get("_name") not in ("translation", "aiayn_translation"):
        raise InputError(f"{checkpoint}: its task is {task.get('_name')}, not translation")
    return task


def bundle(
    run_dir: Path,
    checkpoint: Path | None,
    output: Path,
    dtype: torch.dtype = torch.float32,
    examples: Path | None = None,
) -> int:
    """Write a bundle to a new directory, and return its size in bytes.

    The weights are stored in this dtype; settings and identity are kept. examples: sentences that
    the translation page offers. Raises InputError or OSError for unusable input, and if the
    output exists.
    """
    checkpoint, data = locate(run_dir, checkpoint)
    state = load(checkpoint)
    task_settings(state, checkpoint)
    settings, _ = load_subwords(data)
    names = settings.dictionaries
    words = [read_verified_dictionary(data / name) for name in names]
    state["model"] = {name: weight.to(dtype) for name, weight in state["model"].items()}
    trained = Identity.read(state.get("task_state"))
    here = Identity.of(words, languages=settings.languages)
    trained.check_dictionaries(here, data, names)
    state["task_state"] = replace(trained, dictionaries=here.dictionaries).task_state()
    return write_bundle(state, data, settings, output, examples)


def write_bundle(
    state: dict[str, Any],
    data: Path,
    settings: TextSettings,
    output: Path,
    examples: Path | None = None,
) -> int:
    """Write a checkpoint and the text files of a data directory to a new directory.

    Returns its size in bytes. Raises InputError or OSError if that fails or the output exists.
    """
    source, target = settings.languages
    with write_directory_atomically(output) as directory:
        cfg, _ = configuration(state)
        cfg["task"].update(source_lang=source, target_lang=target)
        safetensors_file.write(state, cfg, directory)
        for name in text_files(data, settings):
            shutil.copyfile(data / name, directory / name)
        if examples is not None:
            shutil.copyfile(examples, directory / EXAMPLES_FILE)
        command = "parse" if settings.holds_trees else "translate"
        note = NOTE.format(command=command, source=source, target=target)
        (directory / "README.txt").write_text(note, encoding="utf-8")
        write_manifest(directory, [path.name for path in directory.iterdir()])
    return sum(path.stat().st_size for path in output.iterdir())


def text_files(data: Path, settings: TextSettings) -> list[str]:
    """Return the names of the files of a data directory that its model needs for raw text."""
    names = [SETTINGS_FILE, settings.codes, *settings.dictionaries]
    return names + [name for name in (PAIRS_FILE, EXAMPLES_FILE) if (data / name).is_file()]
