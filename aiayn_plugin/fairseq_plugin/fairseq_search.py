"""§6.1 fairseq's searches, models and tasks, for inference from Python."""

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, tasks, utils
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models import ARCH_MODEL_REGISTRY
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import Tensor

from ..checkpoints.bundle import task_settings
from ..checkpoints.loading import LoadedModel, max_source_tokens
from ..errors import InputError
from ..paper import SearchSettings
from ..search import Hypothesis
from ..search.batching import search_by_length
from ..text.dictionary import Vocabulary
from .generation_options import complete, find_fairseq_only_option
from .model import paper_architecture

#: Options of fairseq-generate's search that the plugin's own does not have.
FAIRSEQ_OPTIONS = {
    "sampling",
    "sampling_topk",
    "sampling_topp",
    "diverse_beam_groups",
    "diverse_beam_strength",
    "diversity_rate",
    "match_source_len",
    "no_repeat_ngram_size",
}


def check_options(options: dict[str, Any]) -> None:
    """Raise InputError for options that a FairseqSearch ignores or cannot combine."""
    shared = {field.name for field in fields(SearchSettings)} & vars(GenerationConfig()).keys()
    if unknown := sorted(options.keys() - shared - FAIRSEQ_OPTIONS):
        raise InputError(f"{unknown[0]} is not an option of the search")
    find_fairseq_only_option(complete(Namespace(**options), {}))  # for its InputErrors


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
    settings = {
        # fairseq's data settings, which a bundle does not have
        **{"train_subset": "train", "dataset_impl": None, "required_seq_len_multiple": 1},
        **task_settings(directory.checkpoint, [*filter(paper_architecture, ARCH_MODEL_REGISTRY)]),
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
    """Return the model of a run directory as fairseq loads it, with its task; see load_task."""
    task = load_task(directory)
    (model,), _ = checkpoint_utils.load_model_ensemble([str(directory.checkpoint)], task=task)
    source, target = (
        Vocabulary(dictionary.symbols[dictionary.nspecial :])
        for dictionary in (task.source_dictionary, task.target_dictionary)
    )
    longest = max_source_tokens(model.encoder, task.cfg.max_source_positions)
    return LoadedModel(model.eval(), source, target, longest, task)


class FairseqSearch:
    """A search by options of fairseq-generate, with the interface of BeamSearch."""

    def __init__(self, loaded: LoadedModel, options: dict[str, Any], trees_only: bool) -> None:
        """Build fairseq's generator for a model of load_fairseq_model.

        Raises InputError for invalid options.
        """
        self.task, self.model = loaded.task, loaded.model
        self.task.cfg.trees_only = trees_only
        self.generator = self.task.build_generator([self.model], Namespace(**options))

    def search(
        self, sentences: Sequence[Tensor], max_tokens: int, progress: Callable[[int], object]
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence; see BeamSearch.search."""
        pad = self.task.source_dictionary.pad()
        device = next(self.model.parameters()).device

        def search_batch(source: Tensor) -> list[list[Hypothesis]]:
            source = source.to(device)
            net_input = {"src_tokens": source, "src_lengths": source.ne(pad).sum(dim=1)}
            sample = {"id": torch.arange(len(source)), "net_input": net_input}
            return [
                [
                    Hypothesis(*(h[key].cpu() for key in ("tokens", "score", "positional_scores")))
                    for h in hypotheses
                ]
                for hypotheses in self.task.inference_step(self.generator, [self.model], sample)
            ]

        return search_by_length(search_batch, sentences, max_tokens, progress)
