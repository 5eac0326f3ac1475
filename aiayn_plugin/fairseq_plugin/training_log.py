"""§5: the start of a training log: the environment, and the settings compared with the paper's."""

import platform
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import fairseq
import torch
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY
from omegaconf import DictConfig

from ..checkpoints.loading import model_settings
from ..kernels.device import device_name
from ..paper import SCALED_DOWN, ModelSettings, get_settings
from ..training.optimizer import learning_rate
from .defaults import COMPONENTS
from .model import TransformerConfig, paper_architecture
from .optimizer import parse_betas

#: Settings in the table, in order; a setting that is missing on one side is shown as "-".
ROWS = (
    *("N", "d_model", "d_ff", "h", "d_k", "d_v", "positions", "feed_forward_gain", "dropout"),
    *("attention_dropout", "attention_bias", "neighbourhood", "tie_embeddings", *COMPONENTS),
    *("label_smoothing", "adam_betas", "adam_eps", "weight_decay", "clip_norm", "warmup_updates"),
    *("peak_learning_rate", "tokens_per_update", "max_update"),
    *("save_interval_updates", "keep_interval_updates"),
)
#: The groups of fairseq's configuration that hold training settings.
GROUPS = ("criterion", "optimizer", "lr_scheduler", "task", "optimization", "checkpoint")
#: Other options that change training, as (group, name); they get a row only if they are set.
OTHER_OPTIONS = (
    ("optimization", "max_epoch"),
    ("optimization", "sentence_avg"),
    ("dataset", "curriculum"),
    ("task", "truncate_source"),
    ("criterion", "ignore_prefix_size"),
    ("ema", "store_ema"),
    ("checkpoint", "finetune_from_model"),
)
#: The options that set the batch size without --tokens-per-update.
BATCH_OPTIONS = (
    ("dataset", "max_tokens"),
    ("dataset", "batch_size"),
    ("optimization", "update_freq"),
)


def compare_with_paper(cfg: DictConfig) -> Iterator[tuple[str, Any, Any]]:
    """Yield each setting of §3 and §5: its name, the paper's value, and the value in this run.

    Options that the dataclass of a user's architecture adds come last, without the paper's value.
    Architectures that are not in the paper are compared with the one they derive from.
    """
    paper, training = get_settings(compared_architecture(cfg.model._name)), _read_training(cfg)
    components = {name: getattr(cfg[name], "_name", None) for name in COMPONENTS}
    sides = (
        _row_values(paper, asdict(paper), COMPONENTS),
        _row_values(model_settings(cfg.model), training, components),
    )
    for name in ROWS:
        yield name, *(side.get(name, "-") for side in sides)
    batches = BATCH_OPTIONS if training["tokens_per_update"] == "-" else ()
    for group, name in (*OTHER_OPTIONS, *batches):
        value = getattr(cfg[group], name, None)
        if value not in (None, False, 0, [1]):
            yield name, "-", value if isinstance(value, int | str) else ", ".join(map(str, value))
    options = MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[cfg.model._name]]
    known = {option.name for option in fields(TransformerConfig)}
    for option in fields(options):
        if option.name not in known:
            yield option.name, "-", cfg.model[option.name]


def _read_training(cfg: DictConfig) -> dict[str, Any]:
    """Return the training settings of a run by name."""
    training: dict[str, Any] = {"weight_decay": 0.0}
    for group in GROUPS:
        settings = cfg[group] or {}
        # A component without a dataclass gets a Namespace of all command-line options.
        training.update(vars(settings) if isinstance(settings, Namespace) else settings)
    if "lr" not in (cfg.lr_scheduler or ()):  # a user's schedule that computes its rates
        training["lr"] = ["-"]
    if "adam_betas" in training:
        training["adam_betas"] = parse_betas(training["adam_betas"])
    training["tokens_per_update"] = training.get("tokens_per_update") or "-"
    return training


def compared_architecture(arch: str) -> str:
    """Return the paper's architecture to compare with one of the plugin's or a user's."""
    architecture = paper_architecture(arch)
    assert architecture is not None
    return SCALED_DOWN.get(architecture, architecture)


def _row_values(
    model: ModelSettings, training: Mapping[str, Any], components: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the value of each row."""
    if components["lr_scheduler"] == COMPONENTS["lr_scheduler"]:
        warmup = training["warmup_updates"]
        peak = f"{learning_rate(warmup, model.d_model, warmup):.3g}"
    else:
        peak = ", ".join(map(str, training["lr"]))
    widths = dict(zip(("d_k", "d_v"), model.head_widths(), strict=True))
    return {**training, **asdict(model), **widths, **components, "peak_learning_rate": peak}


def format_table(cfg: DictConfig) -> str:
    """Return the table of settings; "< changed" marks those that differ from the paper."""
    arch = cfg.model._name
    paper_arch = compared_architecture(arch)
    note = f" (not in the paper; compared with {paper_arch})" if arch != paper_arch else ""
    lines = [f"{arch}{note}", f"{'setting':<24}{'paper':<36}{'this run':<36}"]
    for name, paper, run in compare_with_paper(cfg):
        mark = "" if paper == run else "< changed"
        lines.append(f"{name:<24}{paper!s:<36}{run!s:<36}{mark}")
    return "\n".join(line.rstrip() for line in lines)


def describe_environment(cfg: DictConfig) -> dict[str, str]:
    """Return the versions, the device and the command of a run, without torchrun's part."""
    device = "cpu" if cfg.common.cpu or not torch.cuda.is_available() else "cuda"
    return {
        "versions": f"Python {platform.python_version()}, torch {torch.__version__}, "
        f"fairseq {fairseq.__version__}",
        "device": device_name(device),
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
    }
