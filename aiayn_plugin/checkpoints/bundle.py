"""Model directories: what a recipe of examples/ leaves behind, and bundles of it."""

import shutil
from pathlib import Path
from typing import Any

from ..atomic import write_directory_atomically
from ..errors import InputError
from ..paper import ARCHITECTURES
from ..text.dictionary import hash_words, read_dictionary
from ..text.manifest import read_manifest, verify_files, write_manifest
from ..text.pipeline import load_subwords
from ..text.settings import SETTINGS_FILE
from .averaging import average
from .compatibility import SIDES, check_dictionaries, dictionaries_of
from .safe_load import configuration, glance, save

#: The checkpoint of a model directory.
MODEL_FILE = "model.pt"
OURS = {"aiayn_transformer", *ARCHITECTURES}
NOTE = """This directory holds a model for `aiayn {command}` ({source} to {target}).

A model carries what it learned from its training text: before you pass it on, see whether the
licence of that text allows it. The code of aiayn-plugin is under the MIT licence; that says nothing
about this model.
"""


def locate(model_dir: Path, checkpoint: Path | None = None) -> tuple[Path, Path]:
    """Return the checkpoint of a model directory, and the directory of its text settings.

    The second one has the dictionaries, the codes and text.json: a recipe keeps them in data/, a
    bundle beside the model. Raises InputError if there is no checkpoint.
    """
    checkpoint = checkpoint or model_dir / MODEL_FILE
    if not checkpoint.is_file():
        raise InputError(
            f"{checkpoint} is missing: give a directory that a recipe or aiayn bundle made"
        )
    data = model_dir / "data"
    return checkpoint, data if data.is_dir() else model_dir


def task_settings(checkpoint: Path) -> dict[str, Any]:
    """Return the task's settings in a checkpoint of one of the plugin's models.

    Raises InputError for any other checkpoint, and for another task than translation.
    """
    try:
        cfg, architecture = configuration(glance(checkpoint))
    except InputError as error:
        raise InputError(f"{checkpoint}: {error}") from None
    if architecture not in OURS:
        raise InputError(
            f"{checkpoint}: a model of architecture {architecture}, none of the "
            "plugin's; aiayn convert turns fairseq's transformer into one"
        )
    name = (cfg.get("task") or {}).get("_name")
    if name not in ("translation", "aiayn_translation"):
        raise InputError(f"{checkpoint}: of the task {name}, not of translation")
    return cfg["task"]


def bundle(model_dir: Path, checkpoint: Path | None, output: Path) -> int:
    """Put what a translation needs into one new directory, and return its bytes.

    Raises InputError or OSError for input that cannot be used, and if the output is there already.
    """
    checkpoint, data = locate(model_dir, checkpoint)
    task_settings(checkpoint)
    settings, _ = load_subwords(data)
    state = average([checkpoint])  # in float32, without the optimiser's state
    state["extra_state"] = {}
    languages = settings.source_lang, settings.target_lang
    names = [f"dict.{lang}.txt" for lang in languages]
    verify_files(data, read_manifest(data), names, contents=True)
    checksums = [hash_words(word for word, _ in read_dictionary(data / name)) for name in names]
    here = dict(zip(SIDES, checksums, strict=True))
    check_dictionaries(dictionaries_of(state.get("task_state") or {}), here, data, names)
    state["task_state"] = {"dictionaries": here}
    with write_directory_atomically(output) as directory:
        save(state, directory / MODEL_FILE)
        for name in (SETTINGS_FILE, settings.codes, *names):
            shutil.copyfile(data / name, directory / name)
        command = "parse" if settings.holds_trees else "translate"
        note = NOTE.format(command=command, source=languages[0], target=languages[1])
        (directory / "README.txt").write_text(note, encoding="utf-8")
        write_manifest(directory, [path.name for path in directory.iterdir()])
    return sum(path.stat().st_size for path in output.iterdir())
