"""fairseq's tasks and registered models, for inference without its commands."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils, tasks, utils
from fairseq.models import ARCH_MODEL_REGISTRY
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..checkpoints.bundle import task_settings
from ..checkpoints.loading import LoadedModel, max_source_tokens
from ..checkpoints.safe_load import load
from ..errors import InputError
from ..text.dictionary import Vocabulary
from .model import paper_architecture


def import_user_dir(path: str | Path) -> None:
    """Import a user's own components, as fairseq's --user-dir does.

    The path must come from the user and never from a checkpoint, since its code runs. Raises
    InputError if it does not exist or cannot be imported.
    """
    if Path(path).name == __name__.partition(".")[0]:
        return  # imported already, and fairseq would refuse a second import
    try:
        utils.import_user_module(Namespace(user_dir=str(path)))
    except FileNotFoundError:
        raise InputError(f"--user-dir {path} does not exist") from None
    except ImportError as error:
        raise InputError(f"--user-dir {path} cannot be imported: {error}") from error


def load_task(directory: Any) -> Any:
    """Return the task of a run directory, with the paper's search.

    Raises InputError if the checkpoint does not fit this version.
    """
    text = directory.pipeline.settings
    state = load(directory.checkpoint, with_data=False)
    known = [*filter(paper_architecture, ARCH_MODEL_REGISTRY)]
    settings = {
        # fairseq's data settings, which a bundle does not have
        **{"train_subset": "train", "dataset_impl": None, "required_seq_len_multiple": 1},
        **task_settings(state, directory.checkpoint, known),
        "_name": "aiayn_translation",
        "data": str(directory.data),
        "length_penalty": "gnmt",
        "source_lang": text.source_lang,
        "target_lang": text.target_lang,
        "trees_only": False,
    }
    try:
        return tasks.setup_task(OmegaConf.create(settings))
    except OmegaConfBaseException as error:
        raise InputError(
            f"{directory.checkpoint}: written by a different version of the plugin: {error}"
        ) from None


def load_fairseq_model(directory: Any) -> LoadedModel:
    """Return the model of a run directory as fairseq loads it; raises the errors of load_task."""
    task = load_task(directory)
    (model,), _ = checkpoint_utils.load_model_ensemble([str(directory.checkpoint)], task=task)
    source, target = (
        Vocabulary(dictionary.symbols[dictionary.nspecial :])
        for dictionary in (task.source_dictionary, task.target_dictionary)
    )
    longest = max_source_tokens(model.encoder, task.cfg.max_source_positions)
    return LoadedModel(model.eval(), source, target, longest)
