"""§5.1, §6.1: translation with the paper's batches, and without losing a sentence."""

import logging
import math
import os
import re
from argparse import Namespace
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from fairseq.data import data_utils
from fairseq.dataclass import ChoiceEnum
from fairseq.dataclass.configs import GenerationConfig
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from . import recipe
from .architectures import ARCHITECTURES
from .batching import Plan, plan
from .compat import link_or_copy
from .errors import SettingError, fail
from .rules import FairseqRules, PaperRules
from .search import BeamSearch

logger = logging.getLogger(__name__)

OUT_OF_MEMORY = re.compile("out of memory|can't allocate memory")
FAIRSEQ_SEARCH = {name: getattr(GenerationConfig(), name) for name in recipe.SEARCH}


@dataclass
class AiaynTranslationConfig(TranslationConfig):
    tokens_per_update: int = field(
        default=0,
        metadata={
            "help": "target tokens per update, without padding, over all devices (§5.1: 25,000): "
            "batches of at most --max-tokens are sized and accumulated to it; 0: fairseq's own "
            "--max-tokens and --update-freq"
        },
    )
    length_penalty: ChoiceEnum(("gnmt", "fairseq")) = field(  # type: ignore[valid-type]
        default="gnmt",
        metadata={
            "help": "search: the paper's (§6.1), where --lenpen is α of ((5 + |Y|) / 6)^α, or "
            "fairseq's, with its defaults, where it is the exponent of |Y|"
        },
    )


@register_task("aiayn_translation", dataclass=AiaynTranslationConfig)
class AiaynTranslation(TranslationTask):
    """fairseq's translation task with four differences: batches of --tokens-per-update when
    training, every sentence of every other split, one complete set of checkpoints to average, and
    the paper's search.
    """

    cfg: AiaynTranslationConfig

    def __init__(self, cfg, src_dict, tgt_dict) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        self.run: Any = None  # the whole configuration, when training
        self.planned: tuple[Any, Plan] | None = None  # the training set and its plan
        self.epoch = 1
        self.halved = False  # whether a batch was too large for memory

    def build_model(self, cfg, from_checkpoint=False):
        """When a training starts, log the paper's settings beside its own, and the disk."""
        try:
            model = super().build_model(cfg, from_checkpoint)
            if not from_checkpoint:
                self.run = self.cfg._get_root()
                if cfg._name in ARCHITECTURES:
                    logger.info("the paper's settings and this run's:\n%s", recipe.block(self.run))
                    self._take_bfloat16(model)
                self._check_disk(sum(p.numel() for p in model.parameters()))
        except SettingError as error:
            fail(str(error))
        return model

    def _take_bfloat16(self, model) -> None:
        """--bf16 as torch's autocast: fairseq would make all of the model bfloat16, its residual
        sums and what checkpoints hold too."""
        common = self.run.common
        if common.bf16 and not common.memory_efficient_bf16:
            common.bf16, model.product_dtype = False, torch.bfloat16
            logger.info("matrix products in bfloat16, weights and optimizer in float32")

    def _check_disk(self, parameters: int) -> None:
        directory = self.run.checkpoint.save_dir
        needed = recipe.disk_needed(self.run, parameters)
        free = recipe.disk_free(directory) + recipe.disk_used(directory)
        logger.info(
            "checkpoints in %s need about %.1f GB; %.1f GB are free for them",
            directory, needed / 1e9, free / 1e9,
        )
        if needed > free:
            logger.warning(
                "not enough disk for the checkpoints: make room, choose another --save-dir, or "
                "keep fewer with --keep-interval-updates"
            )

    def get_batch_iterator(self, dataset, max_tokens=None, *args, **kwargs):
        """fairseq's iterator; the training split's batches follow --tokens-per-update, and no
        other split's batches need be a multiple of 8, for which fairseq would drop sentences."""
        train = self.run is not None and dataset is self.datasets.get(self.cfg.train_subset)
        if not train:
            kwargs["required_batch_size_multiple"] = 1
        elif self.cfg.tokens_per_update > 0:
            planned = self._plan(dataset, max_tokens, kwargs)
            self.run.optimization.update_freq = [planned.update_freq]
            max_tokens = planned.max_tokens
        return super().get_batch_iterator(dataset, max_tokens, *args, **kwargs)

    def filter_indices_by_size(
        self, indices, dataset, max_positions=None, ignore_invalid_inputs=False
    ):
        """fairseq's; ends the command with one line where a sentence is too long for the model."""
        if not ignore_invalid_inputs and max_positions is not None:
            _, longer = dataset.filter_indices_by_size(indices, max_positions)
            if longer:
                tokens = tuple(map(int, dataset.size(min(longer))))
                fail(
                    f"{len(longer)} sentences are longer than the (source, target) limits "
                    f"{max_positions} of the model and the task; sentence {min(longer) + 1} has "
                    f"{tokens} tokens: raise --max-source-positions and "
                    "--max-target-positions (learned positions stay as many as were trained), or "
                    "skip them with --skip-invalid-size-inputs-valid-test"
                )
        return super().filter_indices_by_size(
            indices, dataset, max_positions, ignore_invalid_inputs
        )

    def _plan(self, dataset, max_tokens: int, kwargs: dict) -> Plan:
        if self.planned is None or self.planned[0] is not dataset:
            # as fairseq orders them, without moving the generator on
            with data_utils.numpy_seed(kwargs.get("seed", 1) + kwargs.get("epoch", 1)):
                order = dataset.ordered_indices()
            if kwargs.get("max_positions") is not None:
                order, _ = dataset.filter_indices_by_size(order, kwargs["max_positions"])
            sizes = np.stack((dataset.src_sizes, dataset.tgt_sizes), axis=1).astype(np.int64)
            widths = sizes.max(axis=1)[order]

            def cut(limit: int) -> list[np.ndarray]:
                return data_utils.batch_by_size(
                    order,
                    None,
                    num_tokens_vec=widths,
                    max_tokens=limit,
                    max_sentences=kwargs.get("max_sentences"),
                    required_batch_size_multiple=kwargs.get("required_batch_size_multiple", 1),
                )

            devices = kwargs.get("num_shards", 1)
            chosen = plan(cut, sizes, self.cfg.tokens_per_update, devices, max_tokens)
            logger.info("%s", chosen)
            self.planned = dataset, chosen
        return self.planned[1]

    def begin_epoch(self, epoch, model) -> None:
        super().begin_epoch(epoch, model)
        self.epoch = epoch

    def post_save(self, path: str, num_updates: int) -> None:
        """Complete the checkpoints of --save-interval-updates: fairseq writes none of them where
        an epoch ends at that update."""
        checkpoint = self.run.checkpoint
        interval = checkpoint.save_interval_updates
        if interval < 1 or num_updates % interval or f"_{num_updates}" in os.path.basename(path):
            return
        name = f"checkpoint_{self.epoch}_{num_updates}.pt"
        link_or_copy(path, os.path.join(checkpoint.save_dir, name))

    def build_generator(self, models, args, *more, **named):
        """The generator of `searcher`; ends the command with one line where there is none."""
        try:
            return self.searcher(models, args, *more, **named)
        except SettingError as error:
            fail(str(error))

    def searcher(
        self,
        models,
        args,
        seq_gen_cls=None,
        extra_gen_cls_kwargs=None,
        prefix_allowed_tokens_fn=None,
    ):
        """BeamSearch under the rules of --length-penalty; fairseq's other searches are fairseq's.

        The arguments are FairseqTask.build_generator's. Raises SettingError for settings that no
        search has.
        """
        build = super().build_generator
        ours = self.cfg.length_penalty == "gnmt"
        if isinstance(args, Namespace):  # --eval-bleu-args: only what was typed
            args = Namespace(**{**(recipe.SEARCH if ours else FAIRSEQ_SEARCH), **vars(args)})
        self._to_bfloat16(models)
        if seq_gen_cls is not None or getattr(args, "score_reference", False):
            return build(models, args, seq_gen_cls, extra_gen_cls_kwargs, prefix_allowed_tokens_fn)
        others = _other_searches(args) + ["prefix_allowed_tokens_fn"] * bool(
            prefix_allowed_tokens_fn)
        if others and ours:
            raise SettingError(
                f"{others[0]} is another search than the paper's: give --task translation"
            )
        if others:
            return build(models, args, None, extra_gen_cls_kwargs, prefix_allowed_tokens_fn)
        words = len(self.target_dictionary)
        if not 1 <= args.beam < words:
            raise SettingError(f"--beam {args.beam} must be at least 1, and less than the {words} "
                               "entries of the target dictionary")
        if ours and not 0 <= args.lenpen < math.inf:
            raise SettingError(f"--lenpen {args.lenpen} must not be negative: it is α of the GNMT "
                               "penalty (§6.1)")
        nbest = getattr(args, "nbest", 1)
        if nbest < 1:
            raise SettingError(f"--nbest {nbest} must be at least 1")
        if min(args.max_len_a, args.max_len_b) < 0:
            raise SettingError("--max-len-a and --max-len-b must not be negative")
        exponent = 0.0 if getattr(args, "unnormalized", False) else args.lenpen
        limit_and_kept = args.max_len_a, args.max_len_b, min(nbest, args.beam)
        # where an option lets scores rise, nothing is certain before the limit
        falls = min(exponent, getattr(args, "unkpen", 0), getattr(args, "lm_weight", 0)) >= 0
        rules: Any = FairseqRules(exponent, *limit_and_kept, first=args.beam, early=falls)
        if ours:
            rules = PaperRules(exponent, *limit_and_kept, early=falls)
        alignment = getattr(args, "print_alignment", None)
        if alignment is None and getattr(args, "replace_unk", None) is not None:
            alignment = "hard"
        extra = {**(extra_gen_cls_kwargs or {}), "rules": rules, "alignment": alignment}
        return build(models, args, BeamSearch, extra)

    def _to_bfloat16(self, models) -> None:
        """--bf16 of the generating commands, which fairseq takes and does not apply."""
        run = self.cfg._get_root()
        if self.run is None and "common_eval" in run and run.common_eval.path and run.common.bf16:
            for model in models:
                model.bfloat16()

    def inference_step(self, generator, models, sample, prefix_tokens=None, constraints=None):
        """`translate`; ends the command with one line where there is no translation."""
        try:
            return self.translate(generator, models, sample, prefix_tokens, constraints)
        except SettingError as error:
            fail(str(error))

    def translate(self, generator, models, sample, prefix_tokens=None, constraints=None):
        """fairseq's inference step; a batch for which memory is too small is searched in halves.

        Raises SettingError where it is too small for one sentence, or no hypothesis is possible.
        """
        try:
            return super().inference_step(generator, models, sample, prefix_tokens, constraints)
        except RuntimeError as error:
            if not OUT_OF_MEMORY.search(str(error)) or constraints is not None:
                raise
            if (size := len(sample["id"])) < 2:
                raise SettingError("not enough memory to translate one sentence: a smaller --beam "
                                   "or shorter sentences need less") from None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if not self.halved:
            logger.warning("out of memory: a batch of %d sentences is translated in halves, later "
                           "ones where they must be; a smaller --max-tokens avoids this", size)
        self.halved = True
        found = []
        for half in (slice(size // 2), slice(size // 2, None)):
            part = {**sample, "id": sample["id"][half], "net_input": {
                name: value[half] for name, value in sample["net_input"].items()}}
            prefix = prefix_tokens[half] if prefix_tokens is not None else None
            found += self.translate(generator, models, part, prefix)
        return found


def _other_searches(args) -> list[str]:
    """The typed options that ask for one of fairseq's other searches."""
    asked = {
        "--sampling": getattr(args, "sampling", False),
        "--diverse-beam-groups": getattr(args, "diverse_beam_groups", -1) > 0,
        "--diversity-rate": getattr(args, "diversity_rate", -1) > -1,
        "--match-source-len": getattr(args, "match_source_len", False),
        "--constraints": getattr(args, "constraints", None),
        "--prefix-allowed-tokens-fn": getattr(args, "prefix_allowed_tokens_fn", None),
    }
    return [flag for flag, given in asked.items() if given]
