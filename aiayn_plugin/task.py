"""§5.1, §6.1: translation with the paper's batches, and without losing a sentence."""

import logging
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from fairseq.data import data_utils
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from . import recipe
from .architectures import ARCHITECTURES
from .batching import Plan, plan
from .compat import link_or_copy
from .errors import SettingError, fail

logger = logging.getLogger(__name__)


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


@register_task("aiayn_translation", dataclass=AiaynTranslationConfig)
class AiaynTranslation(TranslationTask):
    """fairseq's translation task with three differences: batches of --tokens-per-update when
    training, every sentence of every other split, and one complete set of checkpoints to average.
    """

    cfg: AiaynTranslationConfig

    def __init__(self, cfg, src_dict, tgt_dict) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        self.run: Any = None  # the whole configuration, when training
        self.planned: tuple[Any, Plan] | None = None  # the training set and its plan
        self.epoch = 1

    def build_model(self, cfg, from_checkpoint=False):
        """When a training starts, log the paper's settings beside its own, and the disk."""
        try:
            model = super().build_model(cfg, from_checkpoint)
            if not from_checkpoint:
                self.run = self.cfg._get_root()
                if cfg._name in ARCHITECTURES:
                    logger.info("the paper's settings and this run's:\n%s", recipe.block(self.run))
                self._check_disk(sum(p.numel() for p in model.parameters()))
        except SettingError as error:
            fail(str(error))
        return model

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
