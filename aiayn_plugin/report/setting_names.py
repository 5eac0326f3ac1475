"""The settings of a run as a report shows them: English names and values."""

from collections.abc import Mapping
from typing import Any

from .document import Term

#: The English names of the settings that a training run records.
NAMES: Mapping[str, str] = {
    "N": "layers in each stack",
    "d_model": "width of the model",
    "d_ff": "width of the feed-forward network",
    "h": "attention heads",
    "d_k": "width of queries and keys",
    "d_v": "width of values",
    "positions": "positional encoding",
    "feed_forward_gain": "gain of the feed-forward initialisation",
    "dropout": "dropout",
    "attention_dropout": "dropout on attention weights",
    "attention_bias": "biases in the attention projections",
    "neighbourhood": "neighbourhood of restricted self-attention",
    "tie_embeddings": "tied embeddings",
    "criterion": "loss",
    "optimizer": "optimizer",
    "lr_scheduler": "learning-rate schedule",
    "label_smoothing": "label smoothing",
    "adam_betas": "Adam's decay rates",
    "adam_eps": "Adam's epsilon",
    "weight_decay": "weight decay",
    "clip_norm": "maximum gradient norm",
    "warmup_updates": "warm-up updates",
    "peak_learning_rate": "peak learning rate",
    "tokens_per_update": "target tokens per update",
    "max_update": "number of updates",
    "max_epoch": "number of epochs",
    "save_interval_updates": "updates between checkpoints",
    "keep_interval_updates": "checkpoints to keep",
    "max_tokens": "maximum tokens per batch",
    "update_freq": "batches per update on each device",
    "batch_size": "maximum sentences per batch",
    "sentence_avg": "loss averaged over sentences",
    "curriculum": "epochs without shuffling",
    "truncate_source": "sources truncated to the limit",
    "ignore_prefix_size": "target prefix excluded from the loss",
    "store_ema": "moving average of the weights",
    "finetune_from_model": "initial weights",
}
#: The paper's symbols; the other settings go by their flag.
SYMBOLS: Mapping[str, str] = {
    **{name: name for name in ("N", "d_model", "d_ff", "h", "d_k", "d_v")},
    **{"dropout": "P_drop", "neighbourhood": "r", "label_smoothing": "ε_ls"},
    **{"adam_betas": "β1, β2", "adam_eps": "ε"},
    **{"warmup_updates": "warmup_steps", "peak_learning_rate": "lrate"},
}


def setting_term(name: str) -> str | Term:
    """Return a setting's English name with its symbol or flag; unknown names unchanged."""
    if name not in NAMES:
        return name
    return Term(NAMES[name], SYMBOLS.get(name, f"--{name.replace('_', '-')}"))


def setting_value(value: Any) -> str:
    """Return a value in English: "yes", "none", "25,000", "0.9, 0.98"."""
    if value is None or isinstance(value, bool):
        return {None: "none", False: "no", True: "yes"}[value]
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
