"""§6.1: a model and its task out of a checkpoint, to translate with."""

import platform
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, tasks, utils
from fairseq.dataclass.configs import GenerationConfig
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..errors import InputError
from .model import Transformer

#: The settings of fairseq-generate's search.
SEARCH_SETTINGS = {option.name for option in fields(GenerationConfig)}


def load_for_translation(
    checkpoint: Path, task_settings: dict[str, Any], data: Path, source_lang: str, target_lang: str
) -> tuple[Any, Transformer]:
    """Return the task, with the paper's search and the dictionaries in `data`, and the model.

    task_settings: those in the checkpoint. Raises InputError if another version of the plugin made
    the checkpoint, if it is of another model than it says or of other dictionaries, or if those in
    `data` are missing, changed or broken.
    """
    ours = {"_name": "aiayn_translation", "data": str(data), "length_penalty": "gnmt",
            "source_lang": source_lang, "target_lang": target_lang}
    try:
        task = tasks.setup_task(OmegaConf.create({**task_settings, **ours}))
        try:
            (model,), _ = checkpoint_utils.load_model_ensemble(
                [str(checkpoint)], arg_overrides={"data": str(data)}, task=task
            )
        except InputError as error:
            raise InputError(f"{checkpoint}: {error}") from None
    except OmegaConfBaseException as error:
        raise InputError(f"{checkpoint}: made by another version of the plugin: {error}") from None
    return task, model


def check_device(device: str) -> None:
    """Raise InputError if torch cannot compute on a device: "cuda" without a GPU, "meta", "x"."""
    try:
        torch.ones(1, device=device).sum().item()
    except Exception as error:  # torch has many for a device that it lacks
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"--device {device} cannot be used ({reason}): give cpu, or cuda on a "
                         "machine with a GPU") from None


def device_name(name: str) -> str:
    """Return the name of the GPU, or the number and the name of the processors."""
    if name.startswith("cuda"):
        return torch.cuda.get_device_name(name)
    try:
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor()
    models = [line.split(":", 1)[1].strip() for line in info if line.startswith("model name")]
    return f"{len(models)} × {models[0]}" if models else platform.processor()


def to_device(sample: dict[str, Any], device: Any) -> dict[str, Any]:
    """Return a batch on a device."""
    return utils.apply_to_sample(lambda x: x.to(device), sample)
