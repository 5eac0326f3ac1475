"""§5 Training: the paper's run as defaults of fairseq's command line, and how a log shows it."""

import argparse
import ast
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from . import fairseq_names
from .architectures import ARCHITECTURES, settings
from .errors import fail
from .optimizer import lrate

COMPONENTS = {
    "criterion": "aiayn_label_smoothed_cross_entropy",
    "optimizer": "aiayn_adam",
    "lr_scheduler": "aiayn_inverse_sqrt",
}
#: Settings of the architectures that are options of these components; another component has an
#: option of the same name, with its own default.
OPTIONS_OF = {"label_smoothing": "criterion", "warmup_updates": "lr_scheduler"}

#: The paper's search (§6.1).
SEARCH = {"beam": 4, "lenpen": 0.6, "max_len_a": 1.0, "max_len_b": 50}


def search_defaults(argv: Sequence[str] | None) -> dict[str, Any]:
    """What the options of search are where argv (default: sys.argv) does not give them; empty
    where argv asks for fairseq's own task or search."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--task", default="aiayn_translation")
    parser.add_argument("--length-penalty", default="gnmt")
    typed = parser.parse_known_args(argv)[0]
    ours = (typed.task, typed.length_penalty) == ("aiayn_translation", "gnmt")
    return SEARCH if ours else {}


def typed_options(argv: Sequence[str] | None) -> dict[str, Any]:
    """The options among the typed words on which the defaults of others depend."""
    parser = argparse.ArgumentParser(
        add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    parser.add_argument("--arch", "-a")
    parser.add_argument("--batch-size", "--max-sentences")
    parser.add_argument("--lr", "--learning-rate")
    fairseq_names.add_args(parser)
    ours = (*fairseq_names.PAIRS.values(), "positions", "tie_embeddings")
    for name in (*ours, *COMPONENTS, "update_freq", "tokens_per_update", "save_interval",
                 "save_interval_updates", "keep_last_epochs"):
        parser.add_argument("--" + name.replace("_", "-"))
    return vars(parser.parse_known_args(argv)[0])


def defaults(argv: Sequence[str] | None) -> dict[str, Any]:
    """What the options of fairseq-train are where argv (default: sys.argv) does not give them.

    Empty unless argv names one of our architectures. Ends the command where argv contradicts
    itself.
    """
    typed = typed_options(argv)
    arch = typed.get("arch")
    if arch == "aiayn_transformer":  # the model without a name of the paper's
        return fairseq_names.translate(typed)
    if arch not in ARCHITECTURES:
        return {}
    chosen = {**COMPONENTS, **{name: typed[name] for name in COMPONENTS if name in typed}}
    if "lr" in typed and chosen["lr_scheduler"] == COMPONENTS["lr_scheduler"]:
        fail(
            "the schedule aiayn_inverse_sqrt has no --lr: the rate follows from d_model and the "
            "update number (§5.3); drop --lr, or choose another --lr-scheduler"
        )
    by_hand = typed.keys() & {"batch_size", "update_freq"}
    if by_hand and typed.get("tokens_per_update", "0") != "0":
        fail(
            "--tokens-per-update chooses the batches, and so does "
            f"--{min(by_hand).replace('_', '-')}: give one of them"
        )
    paper = settings(arch)
    for name, component in OPTIONS_OF.items():
        if chosen[component] != COMPONENTS[component]:
            del paper[name]
    if by_hand:
        paper["tokens_per_update"] = 0
    paper.update(fairseq_names.translate(typed))
    return {
        **paper,
        **COMPONENTS,
        "clip_norm": 0.0,
        "max_tokens": None if "batch_size" in typed else 4096,
        "required_batch_size_multiple": 1,  # fairseq's 8 loses sentences
        "no_epoch_checkpoints": not typed.keys() & {"save_interval", "keep_last_epochs"}
        and typed.get("save_interval_updates") != "0",
    }


def _get(cfg: DictConfig, group: str, name: str) -> Any:
    return getattr(cfg[group], name, "-") if cfg[group] is not None else "-"


def _peak(d_model: int, warmup: int) -> str:
    return f"{lrate(warmup, d_model, warmup):.3g}"


def compare(cfg: DictConfig) -> list[tuple[str, Any, Any]]:
    """Each setting of §3 and §5: its name, the paper's value, and the value in this run.

    An architecture that is not in the paper (aiayn_tiny) is compared with base.
    """
    arch = cfg.model._name
    paper = settings(arch if arch != "aiayn_tiny" else "aiayn_base")
    off_paper = {"attention_dropout": 0.0, "attention_bias": False, "neighbourhood": None,
                 "tie_embeddings": "all"}
    model = {name: getattr(cfg.model, name) for name in
             ("N", "d_model", "d_ff", "h", "d_k", "d_v", "positions", "feed_forward_gain",
              "dropout", *off_paper)}
    for widths in (paper, model):
        for name in ("d_k", "d_v"):
            if widths[name] is None:
                widths[name] = widths["d_model"] // widths["h"]
    paper.update(COMPONENTS, **off_paper, adam_betas=(0.9, 0.98), adam_eps=1e-9,
                 weight_decay=0.0, clip_norm=0.0,
                 peak_learning_rate=_peak(paper["d_model"], paper["warmup_updates"]))
    betas = _get(cfg, "optimizer", "adam_betas")
    warmup = _get(cfg, "lr_scheduler", "warmup_updates")
    chosen = {name: getattr(cfg[name], "_name", None) for name in COMPONENTS}
    follows = chosen["lr_scheduler"] == COMPONENTS["lr_scheduler"]
    run = {
        **model,
        **chosen,
        "label_smoothing": _get(cfg, "criterion", "label_smoothing"),
        "adam_betas": ast.literal_eval(betas) if isinstance(betas, str) and betas != "-" else betas,
        "adam_eps": _get(cfg, "optimizer", "adam_eps"),
        "weight_decay": getattr(cfg.optimizer, "weight_decay", 0.0),
        "clip_norm": cfg.optimization.clip_norm,
        "warmup_updates": warmup,
        "peak_learning_rate": _peak(model["d_model"], warmup) if follows
        else ", ".join(map(str, cfg.optimization.lr)),
        "tokens_per_update": _get(cfg, "task", "tokens_per_update") or "-",
        "max_update": cfg.optimization.max_update,
        "save_interval_updates": cfg.checkpoint.save_interval_updates,
        "keep_interval_updates": cfg.checkpoint.keep_interval_updates,
    }
    return [(name, paper[name], value) for name, value in run.items()]


def block(cfg: DictConfig) -> str:
    """The table that opens a training log; "<" marks what differs from the paper."""
    arch = cfg.model._name
    note = " (not in the paper; compared with base)" if arch == "aiayn_tiny" else ""
    lines = [f"{arch}{note}", f"{'setting':<24}{'paper':<36}{'this run':<36}"]
    for name, paper, run in compare(cfg):
        mark = "" if paper == run else "< changed"
        lines.append(f"{name:<24}{paper!s:<36}{run!s:<36}{mark}")
    return "\n".join(line.rstrip() for line in lines)


def disk_needed(cfg: DictConfig, parameters: int) -> int:
    """Bytes of the checkpoints that a run keeps: those to average, the best and the last."""
    checkpoint = cfg.checkpoint
    if checkpoint.no_save:
        return 0
    copies = 1 if checkpoint.no_save_optimizer_state else 3  # weights and Adam's two moments
    kept = 0
    if checkpoint.save_interval_updates > 0:
        kept = cfg.optimization.max_update // checkpoint.save_interval_updates
        if checkpoint.keep_interval_updates > 0:
            kept = checkpoint.keep_interval_updates
    return (kept + 2) * copies * 4 * parameters


def disk_used(directory: str) -> int:
    """Bytes of the checkpoints that are there already, each file once whatever its names."""
    paths = Path(directory).glob("checkpoint*.pt")
    return sum({found.st_ino: found.st_size for found in map(os.stat, paths)}.values())


def disk_free(directory: str) -> int:
    """Bytes free where a directory is, or will be made."""
    directory = os.path.abspath(directory)
    while not os.path.exists(directory):
        directory = os.path.dirname(directory)
    return shutil.disk_usage(directory).free
