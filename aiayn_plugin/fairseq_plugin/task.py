"""§5.1, §6.1: fairseq's task of translation, with the paper's batches and the paper's search."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig

from ..errors import InputError
from ..paper import ARCHITECTURES
from ..search.oom import BatchHalver
from ..training.batching import BatchPlan
from . import (
    data_checks as dataset,
)
from . import (
    training_log as log,
)
from .batch_plan import keep_first_epoch_batches, plan_epoch
from .disk_space import check_disk
from .generation_options import build_search_generator
from .generator import Generator, slice_sample
from .precision import check_float16, train_in_bfloat16
from .recorder import record_training
from .trainer_hooks import TrainerHooks

logger = logging.getLogger(__name__)


@dataclass
class AiaynTranslationConfig(TranslationConfig):
    tokens_per_update: int = field(
        default=0,
        metadata={
            "help": "target tokens per update, without padding, over all devices (§5.1: 25,000): "
            "an update takes as many batches of at most --max-tokens as make up this number; 0: "
            "fairseq's own --max-tokens and --update-freq"
        },
    )
    length_penalty: ChoiceEnum(("gnmt", "fairseq")) = field(  # type: ignore[valid-type]
        default="gnmt",
        metadata={
            "help": "search: the paper's (§6.1), where --lenpen is α of ((5 + |Y|) / 6)^α, or "
            "fairseq's, with its defaults, where it is the exponent of |Y|"
        },
    )
    trees_only: bool = field(
        default=False,
        metadata={
            "help": "search, of data that preprocess/trees.py made: find nothing but trees over "
            "the words of the sentence (the paper has no such rule)"
        },
    )
    int8: bool = field(
        default=False,
        metadata={
            "help": "search on a CPU with matrix products of 8-bit numbers: faster, and "
            "nearly the same"
        },
    )


@register_task("aiayn_translation", dataclass=AiaynTranslationConfig)
class AiaynTranslation(TrainerHooks):
    """fairseq's translation task with five differences.

    Training has batches of --tokens-per-update, every other split has all of its sentences, the
    checkpoints to average are complete, the search is the paper's, and data that is broken or of
    another dictionary than the checkpoint's is refused.
    """

    cfg: AiaynTranslationConfig

    def __init__(self, cfg, src_dict, tgt_dict) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        self.planned: tuple[Any, BatchPlan] | None = None  # the training set and its plan
        self.batch_halver = BatchHalver()
        self.needs_target = False
        self.building = False  # a model, which has no trained weights yet

    @classmethod
    def setup_task(cls, cfg, **kwargs):
        """As fairseq's. Raises InputError if the data is missing."""
        dataset.check_directories(cfg)
        return super().setup_task(cfg, **kwargs)

    @classmethod
    def load_dictionary(cls, filename):
        """As fairseq's. Raises InputError if the dictionary is missing, changed or broken."""
        dataset.check_dictionary(Path(filename))
        return super().load_dictionary(filename)

    def load_dataset(self, split, epoch=1, combine=False, **kwargs):
        """As fairseq's. Raises InputError if a file of the split is missing, changed or broken."""
        dataset.check_split(self, split, epoch, combine)
        with dataset.in_one_line(split):
            super().load_dataset(split, epoch, combine, **kwargs)

    def build_criterion(self, *args, **kwargs):
        """As fairseq's; from now on every split needs its target side."""
        self.needs_target = True
        return super().build_criterion(*args, **kwargs)

    def build_model(self, cfg, from_checkpoint=False):
        """As fairseq's; when a training starts, log the paper's settings beside its own."""
        if self.cfg.int8 and not from_checkpoint:
            raise InputError("--int8 is for translating: leave it out of a training")
        self.building = True  # with --eval-bleu fairseq builds a generator here too
        try:
            model = super().build_model(cfg, from_checkpoint)
        finally:
            self.building = False
        if not from_checkpoint:
            check_float16(self.training_cfg.common)
            if cfg._name in ARCHITECTURES:
                table = log.table(self.training_cfg)
                logger.info("the paper's settings and this run's:\n%s", table)
                train_in_bfloat16(self.training_cfg, model)
            for name, value in log.circumstances(self.training_cfg).items():
                logger.info("%s: %s", name, value)
            check_disk(self.training_cfg, sum(p.numel() for p in model.parameters()))
            record_training(self, self.training_cfg, model)
        return model

    def get_batch_iterator(self, dataset, max_tokens=None, *args, **kwargs):
        """As fairseq's; the batches of the training split follow --tokens-per-update."""
        train = dataset is self.datasets.get(self.cfg.train_subset)
        if self.training_cfg is None or not train:
            # fairseq drops the last sentences of a split whose number is not a multiple of this
            kwargs["required_batch_size_multiple"] = 1
            return super().get_batch_iterator(dataset, max_tokens, *args, **kwargs)
        keep_first_epoch_batches(kwargs)
        if self.cfg.tokens_per_update > 0:
            planned = self._plan(dataset, max_tokens, kwargs)
            self.training_cfg.optimization.update_freq = [planned.update_freq]
            max_tokens = planned.max_tokens
        return super().get_batch_iterator(dataset, max_tokens, *args, **kwargs)

    def _plan(self, dataset, max_tokens: int, options: dict) -> BatchPlan:
        if self.planned is None or self.planned[0] is not dataset:
            planned = plan_epoch(dataset, self.cfg.tokens_per_update, max_tokens, options)
            logger.info("%s", planned)
            self.planned = dataset, planned
        return self.planned[1]

    def filter_indices_by_size(
        self, indices, dataset, max_positions=None, ignore_invalid_inputs=False
    ):
        """As fairseq's. Raises InputError if a sentence is too long for the model."""
        if not ignore_invalid_inputs and max_positions is not None:
            _, longer = dataset.filter_indices_by_size(indices, max_positions)
            if longer:
                tokens = tuple(map(int, dataset.size(min(longer))))
                raise InputError(
                    f"{len(longer)} sentences are longer than the (source, target) limits "
                    f"{max_positions} of the model and the task; sentence {min(longer) + 1} has "
                    f"{tokens} tokens: raise --max-source-positions and "
                    "--max-target-positions (learned positions stay as many as were trained), or "
                    "skip this example with --skip-invalid-size-inputs-valid-test"
                )
        return super().filter_indices_by_size(
            indices, dataset, max_positions, ignore_invalid_inputs
        )

    def build_generator(
        self,
        models,
        args,
        seq_gen_cls=None,
        extra_gen_cls_kwargs=None,
        prefix_allowed_tokens_fn=None,
    ):
        """Return a Generator under the rules of --length-penalty, or one of fairseq's others.

        The arguments are FairseqTask.build_generator's. Raises InputError for settings that no
        search has.
        """
        return build_search_generator(
            self,
            models,
            args,
            super().build_generator,
            seq_gen_cls,
            extra_gen_cls_kwargs,
            prefix_allowed_tokens_fn,
        )

    def inference_step(self, generator, models, sample, prefix_tokens=None, constraints=None):
        """As fairseq's; a batch that does not fit in memory is searched in halves.

        Raises InputError if memory does not suffice for one sentence, or a sentence has no
        hypothesis.
        """
        step = super().inference_step
        if constraints is not None or isinstance(generator, Generator):  # it halves batches itself
            return step(generator, models, sample, prefix_tokens, constraints)

        def search(rows: slice) -> list:
            prefix = prefix_tokens[rows] if prefix_tokens is not None else None
            return step(generator, models, slice_sample(sample, rows), prefix)

        return self.batch_halver.search(search, slice(0, len(sample["net_input"]["src_tokens"])))
