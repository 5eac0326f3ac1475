"""A model to share: `model.safetensors`, which can hold nothing but tensors, and `config.json`.

The configuration holds the settings of the model and its task, the languages, the identity of the
dictionaries, and the SHA-256 of the weights.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from ..errors import InputError
from ..text.lines import MAX_SETTINGS_FILE, read_data_file
from ..text.manifest import hash_file
from .torch_file import FileError

WEIGHTS_SUFFIX = ".safetensors"
WEIGHTS_FILE, CONFIG_FILE = f"model{WEIGHTS_SUFFIX}", "config.json"
FORMAT_VERSION = 1
TASK_SETTINGS = (
    *("_name", "source_lang", "target_lang"),
    *("max_source_positions", "max_target_positions"),
)
#: Training state that fairseq expects in every checkpoint.
EMPTY_TRAINING_STATE = {
    "optimizer_history": [{"optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 0}],
    "extra_state": {"train_iterator": {"epoch": 1}},
}


def write(state: dict[str, Any], settings: dict[str, Any], directory: Path) -> None:
    """Write the weights of a checkpoint and its configuration to a directory.

    settings: the checkpoint's configuration, as `safe_load.configuration` returns it.
    """
    weights = {  # copies, since safetensors rejects tensors that share memory
        name: weight.clone(memory_format=torch.contiguous_format)
        for name, weight in state["model"].items()
    }
    source, target = "encoder.embedding.weight", "decoder.embedding.weight"
    is_tied = {source, target} <= weights.keys() and torch.equal(weights[source], weights[target])
    tied = {target: source} if is_tied else {}
    path = directory / WEIGHTS_FILE
    write_weights({name: weight for name, weight in weights.items() if name not in tied}, path)
    config = {
        "format": FORMAT_VERSION,
        "model": vars(settings["model"]),
        "task": {name: settings["task"].get(name) for name in TASK_SETTINGS},
        "task_state": state["task_state"],
        "tied": tied,
        "sha256": hash_file(path),
    }
    content = json.dumps(config, default=vars, indent=2, ensure_ascii=False)
    (directory / CONFIG_FILE).write_text(content + "\n", "utf-8")


def write_weights(weights: dict[str, Tensor], path: Path) -> None:
    """Write a safetensors file. Raises OSError if it cannot be written."""
    path.write_bytes(save(weights, {"format": "pt"}))


def read(path: Path, with_data: bool = True) -> dict[str, Any]:
    """Return the content of model.safetensors and its config.json as a checkpoint.

    with_data: False skips the verification of the weights' checksum. Raises FileError, InputError
    if the configuration is not readable, and OSError.
    """
    try:
        config = json.loads(read_data_file(path.with_name(CONFIG_FILE), MAX_SETTINGS_FILE))
        if config["format"] != FORMAT_VERSION:
            raise FileError(f"its {CONFIG_FILE} has a different format")
        if with_data and hash_file(path) != config["sha256"]:
            raise FileError(f"its checksum does not match {CONFIG_FILE}")
        weights: dict[str, Any] = read_weights(path)
        tied = config["tied"]
        if len({*tied.values()}) < len(tied):  # a few bytes each, but a copy when averaged
            raise FileError("it ties several weights to one")
        weights |= {name: weights[twin] for name, twin in tied.items()}
        return {
            "model": weights,
            "cfg": {"model": config["model"], "task": config["task"]},
            "task_state": config["task_state"],
            **EMPTY_TRAINING_STATE,
        }
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FileError(
            f"its {CONFIG_FILE} was not written by aiayn bundle ({type(error).__name__})"
        ) from None


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file. Raises FileError if it is damaged, and OSError."""
    with open(path, "rb") as file:
        if int.from_bytes(file.read(8), "little") > MAX_SETTINGS_FILE:
            raise FileError("it is damaged, or has too many tensors")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise FileError(f"it is damaged ({error})") from None
