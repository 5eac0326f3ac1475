"""§6.1: what translating from Python needs of fairseq: its other searches, and splits of data."""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import torch
from fairseq import checkpoint_utils, tasks
from fairseq.dataclass.configs import GenerationConfig
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import Tensor

from ..checkpoints.bundle import task_settings
from ..errors import InputError
from .generation_options import search_in_int8

#: The settings of fairseq-generate's search.
SEARCH_SETTINGS = {option.name for option in fields(GenerationConfig)}


def task_of(found: Any, trees_only: bool = False) -> Any:
    """Return the task of a model directory (searcher.Found), with the paper's search.

    trees_only: it finds nothing but trees. Raises InputError if another version of the plugin made
    the checkpoint.
    """
    settings = found.pipeline.settings
    ours = {
        "_name": "aiayn_translation",
        "data": str(found.data),
        "length_penalty": "gnmt",
        "source_lang": settings.source_lang,
        "target_lang": settings.target_lang,
        "trees_only": trees_only,
    }
    try:
        return tasks.setup_task(OmegaConf.create({**task_settings(found.checkpoint), **ours}))
    except OmegaConfBaseException as error:
        raise InputError(
            f"{found.checkpoint}: made by another version of the plugin: {error}"
        ) from None


def fairseqs_search(
    found: Any, search: dict[str, Any], trees_only: bool
) -> Callable[[Tensor], list[list[dict]]]:
    """Return what finds the hypotheses of source tokens (sentences, m), by fairseq's settings.

    search: settings of fairseq-generate. Raises InputError for a search that cannot be.
    """
    if odd := sorted(search.keys() - SEARCH_SETTINGS):
        raise InputError(f"{odd[0]} is no setting of the search")
    task = task_of(found, trees_only)
    (model,), _ = checkpoint_utils.load_model_ensemble(
        [str(found.checkpoint)], arg_overrides={"data": str(found.data)}, task=task
    )
    weights = next(found.loaded.model.parameters())
    model.to(device=weights.device, dtype=weights.dtype).eval()
    if found.precision == "int8":
        search_in_int8(model)
    generator = task.build_generator([model], Namespace(**search))

    def find(source: Tensor) -> list[list[dict]]:
        lengths = source.ne(task.source_dictionary.pad()).sum(dim=1)
        sample = {
            "id": torch.arange(len(source)),
            "net_input": {"src_tokens": source, "src_lengths": lengths},
        }
        return task.inference_step(generator, [model], sample)

    return find
