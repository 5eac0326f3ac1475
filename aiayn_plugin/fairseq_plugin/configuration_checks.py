"""Checks of a training run's configuration, from the command line or Hydra."""

import logging
import os
from typing import Any

import torch
from fairseq.data.encoders import TOKENIZER_REGISTRY
from fairseq.dataclass.configs import OptimizationConfig
from hydra.core.hydra_config import HydraConfig

from ..errors import InputError
from ..paper import ARCHITECTURES, ModelSettings, get_settings
from .defaults import COMPONENTS
from .generation_options import check_eval_bleu_args
from .option_names import flag

logger = logging.getLogger(__name__)

#: Minimums that fairseq does not check: it would fail after training has begun.
MINIMUMS = (
    ("checkpoint", "save_interval", 1),
    ("common", "log_interval", 1),
    ("dataset", "num_workers", 0),
    ("dataset", "validate_interval", 1),
    ("optimization", "update_freq", 1),
    ("task", "tokens_per_update", 0),
)

#: The losses that validation reports with these criteria.
LOSSES = {
    COMPONENTS["criterion"]: ("loss", "nll_loss", "ppl"),
    "label_smoothed_cross_entropy": ("loss", "nll_loss", "ppl"),
    "cross_entropy": ("loss", "ppl"),
}


def check_configuration(cfg: Any) -> None:
    """Raise InputError for settings that contradict each other, or with which fairseq would fail.

    fairseq checks few of them itself, and only once training has begun. Warns if
    checkpoint_best.pt would be the worst checkpoint, and about --amp on a CPU.
    """
    for group, name, minimum in MINIMUMS:
        values = cfg[group][name]
        for value in [values] if isinstance(values, int) else values:
            if value < minimum:
                raise InputError(f"{flag(name)} {value} must be at least {minimum}")
    if cfg.task.int8:
        raise InputError("--int8 is for translation: omit it in training")
    if cfg.task.eval_bleu:
        check_eval_bleu_args(cfg.task.eval_bleu_args)
        if (name := cfg.task.eval_bleu_detok) not in TOKENIZER_REGISTRY:
            raise InputError(
                f"--eval-bleu-detok {name} is unknown: choose from {', '.join(TOKENIZER_REGISTRY)}"
            )
    _check_batches(cfg)
    _check_checkpoints(cfg.checkpoint)
    smoothing = getattr(cfg.criterion, "label_smoothing", 0)
    if not 0 <= smoothing <= 1:
        raise InputError(f"label_smoothing {smoothing} must be from 0 to 1")
    if HydraConfig.initialized():
        _check_hydra_name(cfg)
    has_lr = [*cfg.optimization.lr] != OptimizationConfig().lr
    if has_lr and cfg.lr_scheduler._name == COMPONENTS["lr_scheduler"]:
        raise InputError(
            f"the schedule {COMPONENTS['lr_scheduler']} has no optimization.lr: the rate follows "
            "from d_model and the update number (§5.3)"
        )
    started = int(os.environ.get("WORLD_SIZE", 1)) if "TORCHELASTIC_RUN_ID" in os.environ else 1
    if started > 1 == cfg.distributed_training.distributed_world_size:
        raise InputError(
            f"torchrun has started {started} processes, which fairseq-hydra-train joins only on "
            "machines with several GPUs each: use fairseq-train"
        )
    on_cpu = cfg.common.cpu or not torch.cuda.is_available()
    # fairseq's flat parameters need CUDA.
    if on_cpu and cfg.common.fp16 and not cfg.common.fp16_no_flatten_grads:
        raise InputError("--fp16 needs a GPU, but this run is on a CPU: give --bf16 instead")
    if on_cpu and cfg.common.amp:
        logger.warning("--amp trains in float32 on a CPU: give --bf16 instead")
    _check_best_metric(cfg)


def _check_batches(cfg: Any) -> None:
    """Raise InputError for unusable validation sets, or if two options set the batch size."""
    if cfg.dataset.combine_valid_subsets and cfg.dataset.valid_subset != "valid":
        raise InputError(
            "--combine-valid-subsets combines valid, valid1, valid2 and so on: omit --valid-subset"
        )
    is_shared = cfg.dataset.train_subset in cfg.dataset.valid_subset.split(",")
    if is_shared and not cfg.dataset.disable_validation:
        raise InputError(
            f"--valid-subset {cfg.dataset.valid_subset} includes the training set: fairseq would "
            "mix up the batches of both; use a copy of the training set under a different name"
        )
    batches = {"update_freq": [*cfg.optimization.update_freq] != [1]}
    batches["batch_size"] = cfg.dataset.batch_size is not None
    for name, is_set in batches.items():
        if is_set and cfg.task.tokens_per_update > 0:
            raise InputError(
                f"--tokens-per-update and {flag(name)} both set the size of the batches: give one "
                "of them"
            )


def _check_checkpoints(checkpoint: Any) -> None:
    """Raise InputError for options that keep nothing, or leave an old checkpoint_last.pt."""
    if checkpoint.keep_interval_updates_pattern == 0:
        raise InputError(
            "--keep-interval-updates-pattern 0: give the interval of updates to keep, or omit it"
        )
    if checkpoint.no_epoch_checkpoints and checkpoint.keep_last_epochs > 0:
        raise InputError(
            "keep_last_epochs keeps nothing with no_epoch_checkpoints: omit one of them (with "
            "Hydra, set checkpoint.no_epoch_checkpoints=false)"
        )
    if checkpoint.write_checkpoints_asynchronously:
        raise InputError(
            "--write-checkpoints-asynchronously would leave an old checkpoint_last.pt: omit it"
        )


def _check_hydra_name(cfg: Any) -> None:
    """Raise InputError if model._name is set, but the settings are those of base.

    With Hydra, all settings come from the configuration, regardless of model._name.
    """
    if (name := cfg.model._name) not in ARCHITECTURES:
        return
    row, base = vars(get_settings(name)), vars(get_settings("aiayn_base"))
    groups = dict.fromkeys(vars(ModelSettings()), "model") | {"label_smoothing": "criterion"}
    changed = [setting for setting in groups if row[setting] != base[setting]]
    if changed and all(getattr(cfg[groups[s]], s, None) == base[s] for s in changed):
        values = " ".join(f"{groups[setting]}.{setting}={row[setting]}" for setting in changed)
        raise InputError(f"model._name={name} alone does not change the settings: give {values}")


def _check_best_metric(cfg: Any) -> None:
    """Raise InputError if validation does not report --best-checkpoint-metric.

    fairseq would fail after the first validation. Warns if checkpoint_best.pt would be the worst
    checkpoint.
    """
    metric = cfg.checkpoint.best_checkpoint_metric
    needs = {"bleu": ("eval_bleu", cfg.task.eval_bleu)}
    losses = LOSSES.get(cfg.criterion._name, ())
    if losses:
        if "report_accuracy" in cfg.criterion:
            needs["accuracy"] = ("report_accuracy", cfg.criterion.report_accuracy)
        known = (*losses, *needs)
        if metric not in known and cfg.task._name == "aiayn_translation":  # a subclass may log more
            raise InputError(
                f"--best-checkpoint-metric {metric} is unknown: choose from {', '.join(known)}"
            )
    if metric in needs:
        option, is_given = needs[metric]
        if not is_given:
            raise InputError(f"--best-checkpoint-metric {metric} needs {flag(option)}")
        if not cfg.checkpoint.maximize_best_checkpoint_metric:
            logger.warning(
                "checkpoint_best.pt will have the lowest %s: add --maximize-best-checkpoint-metric",
                metric,
            )
    elif cfg.checkpoint.maximize_best_checkpoint_metric and metric in losses:
        logger.warning(
            "checkpoint_best.pt will have the highest %s: give --best-checkpoint-metric, or omit "
            "--maximize-best-checkpoint-metric",
            metric,
        )
