"""§5: the paper's settings beside a run's, at the head of a training's log."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from omegaconf import DictConfig

from ..paper import Settings, settings
from ..training.optimizer import lrate
from .defaults import COMPONENTS
from .model import model_settings
from .optimizer import betas_of


class Row(NamedTuple):
    """A setting: how to read the paper's value and this run's."""

    name: str
    paper: Callable[[Settings], Any]
    run: Callable[[DictConfig], Any]


def _of_model(name: str) -> Row:
    return Row(name, lambda paper: getattr(paper, name),
               lambda cfg: getattr(model_settings(cfg.model), name))


def _head_width(name: str, number: int) -> Row:
    return Row(name, lambda paper: paper.head_widths()[number],
               lambda cfg: model_settings(cfg.model).head_widths()[number])


def _component(name: str) -> Row:
    return Row(name, lambda paper: COMPONENTS[name], lambda cfg: getattr(cfg[name], "_name", None))


def _option(name: str, group: str, missing: Any = "-") -> Row:
    """A setting of a group of fairseq's configuration, which another component may not have."""
    return Row(name, lambda paper: getattr(paper, name),
               lambda cfg: getattr(cfg[group], name, missing) if cfg[group] else missing)


def _peak(d_model: int, warmup_updates: int) -> str:
    return f"{lrate(warmup_updates, d_model, warmup_updates):.3g}"


def _peak_of_run(cfg: DictConfig) -> str:
    if getattr(cfg.lr_scheduler, "_name", None) == COMPONENTS["lr_scheduler"]:
        return _peak(cfg.model.d_model, cfg.lr_scheduler.warmup_updates)
    return ", ".join(map(str, cfg.optimization.lr))


ROWS = (
    *map(_of_model, ("N", "d_model", "d_ff", "h")),
    _head_width("d_k", 0),
    _head_width("d_v", 1),
    *map(_of_model, ("positions", "feed_forward_gain", "dropout", "attention_dropout",
                     "attention_bias", "neighbourhood", "tie_embeddings")),
    *map(_component, COMPONENTS),
    _option("label_smoothing", "criterion"),
    Row("adam_betas", lambda paper: paper.adam_betas,
        lambda cfg: betas_of(getattr(cfg.optimizer, "adam_betas", "-"))),
    _option("adam_eps", "optimizer"),
    _option("weight_decay", "optimizer", missing=0.0),
    _option("clip_norm", "optimization"),
    _option("warmup_updates", "lr_scheduler"),
    Row("peak_learning_rate", lambda paper: _peak(paper.d_model, paper.warmup_updates),
        _peak_of_run),
    Row("tokens_per_update", lambda paper: paper.tokens_per_update,
        lambda cfg: getattr(cfg.task, "tokens_per_update", 0) or "-"),
    _option("max_update", "optimization"),
    _option("save_interval_updates", "checkpoint"),
    _option("keep_interval_updates", "checkpoint"),
)  # fmt: skip


def compare(cfg: DictConfig) -> Iterator[tuple[str, Any, Any]]:
    """Yield each setting of §3 and §5: its name, the paper's value, and the value in this run.

    An architecture that is not in the paper (aiayn_tiny) is compared with base.
    """
    arch = cfg.model._name
    paper = settings(arch if arch != "aiayn_tiny" else "aiayn_base")
    for row in ROWS:
        yield row.name, row.paper(paper), row.run(cfg)


def block(cfg: DictConfig) -> str:
    """Return the table that opens a training's log; "<" marks what differs from the paper."""
    arch = cfg.model._name
    note = " (not in the paper; compared with base)" if arch == "aiayn_tiny" else ""
    lines = [f"{arch}{note}", f"{'setting':<24}{'paper':<36}{'this run':<36}"]
    for name, paper, run in compare(cfg):
        mark = "" if paper == run else "< changed"
        lines.append(f"{name:<24}{paper!s:<36}{run!s:<36}{mark}")
    return "\n".join(line.rstrip() for line in lines)
