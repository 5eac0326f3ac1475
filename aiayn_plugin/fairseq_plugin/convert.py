"""Checkpoints of fairseq's post-norm `transformer` family in the plugin's model, and back."""

import argparse
import re
from collections.abc import Mapping
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerModel
from torch import Tensor

from ..checkpoints.compatibility import Identity, settings_without_shape
from ..checkpoints.loading import MAX_POSITIONS, model_settings
from ..checkpoints.safe_load import configuration
from ..errors import InputError
from ..paper import ModelSettings
from .model import Transformer
from .option_names import LEARNED, STACK_OPTIONS, STACKS, TIES

#: Components of fairseq's weight names, and ours; see our_name for final_layer_norm.
NAMES = {
    "embed_tokens": "embedding",
    "embed_positions": "positions",
    "output_projection": "W_vocabulary",
    "self_attn": "self_attention",
    "encoder_attn": "encoder_attention",
    "q_proj": "W_Q",
    "k_proj": "W_K",
    "v_proj": "W_V",
    "out_proj": "W_O",
    "fc1": "feed_forward.W_1",
    "fc2": "feed_forward.W_2",
    "self_attn_layer_norm": "add_norms.0.norm",
    "encoder_attn_layer_norm": "add_norms.1.norm",
}
#: Options of fairseq's model that the paper's model lacks, and the values that disable them.
DISABLED = {
    "encoder_normalize_before": False,
    "decoder_normalize_before": False,
    "layernorm_embedding": False,
    "no_scale_embedding": False,
    "no_token_positional_embeddings": False,
    "no_cross_attention": False,
    "cross_self_attention": False,
    "adaptive_input": False,
    "adaptive_softmax_cutoff": None,
    "activation_fn": "relu",
    "base_layers": 0,
}
#: Copies of an encoder layer's weights that fairseq 0.12.2 stores, and recreates when loading.
COPIES = re.compile(r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)")
#: Rows of fairseq's learned positions before the first position: padding_idx + 1.
FIRST_POSITION = 2
LIMITS = ("max_source_positions", "max_target_positions")


def our_name(name: str) -> str:
    """Return our name of one of fairseq's weights."""
    final = "add_norms.1.norm" if name.startswith("encoder") else "add_norms.2.norm"
    names = {**NAMES, "final_layer_norm": final}
    return ".".join(names.get(part, part) for part in name.split("."))


def settings_from_fairseq(args: Any) -> ModelSettings:
    """Return our model's settings for those of a fairseq transformer.

    Raises InputError if the paper's model cannot express them.
    """
    for name, disabled in DISABLED.items():
        value = getattr(args, name, disabled)
        if value != disabled and (value or disabled):
            raise InputError(f"cannot convert: the paper's model has no {name} (here {value})")
    both: dict[str, Any] = {}
    for theirs in (*STACK_OPTIONS, LEARNED):
        encoder, decoder = (getattr(args, f"{stack}_{theirs}") for stack in STACKS)
        if encoder != decoder:
            raise InputError(
                f"cannot convert: encoder and decoder differ in {theirs} ({encoder} and "
                f"{decoder}), but not in the paper's model"
            )
        both[theirs] = encoder
    learned = both.pop(LEARNED)
    if int(args.decoder_output_dim) != both["embed_dim"]:
        raise InputError(
            f"cannot convert: decoder_output_dim {args.decoder_output_dim} is not d_model "
            f"{both['embed_dim']}"
        )
    ties = [value for name, value in TIES.items() if getattr(args, name)]
    return ModelSettings(
        **{STACK_OPTIONS[theirs]: value for theirs, value in both.items()},
        positions="learned" if learned else "fairseq",
        dropout=args.dropout,
        attention_dropout=args.attention_dropout,
        attention_bias=True,
        tie_embeddings=ties[-1] if ties else "none",
    )


def settings_for_fairseq(settings: ModelSettings, positions: Mapping[str, int]) -> dict[str, Any]:
    """Return fairseq's settings for those of our model.

    positions: max_source_positions and max_target_positions. Raises InputError if fairseq's
    transformer cannot express the settings.
    """
    if settings.positions == "sinusoids":
        raise InputError(
            "fairseq's transformer does not have the paper's sinusoids: only models with "
            "--positions fairseq or learned can be converted"
        )
    if set(settings.head_widths()) != {settings.d_model / settings.h}:
        raise InputError("fairseq's transformer has no d_k or d_v other than d_model / h")
    if settings.neighbourhood is not None:
        raise InputError("fairseq's transformer has no restricted self-attention")
    both = {theirs: getattr(settings, ours) for theirs, ours in STACK_OPTIONS.items()}
    both.update({LEARNED: settings.positions == "learned", "normalize_before": False})
    tied = settings.tie_embeddings
    return {
        "_name": "transformer",
        "arch": "transformer",
        **{f"{stack}_{name}": value for name, value in both.items() for stack in STACKS},
        "activation_fn": "relu",
        "dropout": settings.dropout,
        "attention_dropout": settings.attention_dropout,
        **{name: tied == value or tied == "all" for name, value in TIES.items()},
        **positions,
    }


def weights_from_fairseq(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return fairseq's weights under our names."""
    return {
        our_name(name): weight[FIRST_POSITION if "embed_positions" in name else 0 :]
        for name, weight in weights.items()
        if not name.endswith(("version", "_float_tensor")) and not COPIES.fullmatch(name)
    }


def weights_for_fairseq(ours: Transformer, theirs: TransformerModel) -> dict[str, Tensor]:
    """Return our model's weights under fairseq's names, for a fairseq model of the same size."""
    state = {**ours.state_dict(), "decoder.W_vocabulary.weight": ours.projection}
    weights = {}
    for name, default in theirs.state_dict().items():
        if COPIES.fullmatch(name):
            continue
        weight = state.get(our_name(name))
        if weight is None and name.endswith("proj.bias"):
            weight = torch.zeros_like(default)
        if weight is not None and "embed_positions" in name:
            weight = torch.cat((weight.new_zeros(FIRST_POSITION, weight.size(1)), weight))
        weights[name] = default if weight is None else weight.detach()
    return weights


def convert(state: dict) -> tuple[dict, str]:
    """Convert fairseq's transformer to our model, or ours to fairseq's.

    state: the content of a checkpoint. Returns the content of the converted one, which has no
    optimizer state, and the name of its kind of model. Raises InputError if the model cannot be
    converted.
    """
    cfg, name = configuration(state)
    trained = Identity.read(state.get("task_state") or {})
    settings, weights = cfg["model"], state["model"]
    kind = ARCH_MODEL_REGISTRY.get(name)
    try:
        if kind is TransformerModel:
            ours, limits, model = _convert_to_ours(settings, weights)
            cfg["model"] = {"_name": "aiayn_transformer", **asdict(ours), **limits}
            identity = Identity(trained.dictionaries, settings_without_shape(ours))
            result = "aiayn_transformer"
        elif kind is Transformer or name == "aiayn_transformer":
            cfg["model"], model = _convert_to_fairseq(settings, weights)
            cfg["task"]["_name"] = "translation"
            identity = Identity(trained.dictionaries)
            result = "fairseq's transformer"
        else:
            raise InputError(
                f"the architecture {name} is neither of fairseq's transformer family nor of "
                "aiayn_plugin"
            )
    except (KeyError, RuntimeError) as error:  # torch's, for missing and misshapen weights
        raise InputError(f"the weights do not fit a {name}: {error}") from None
    history = {
        "criterion_name": "",
        "optimizer_name": "",
        "lr_scheduler_state": {},
        "num_updates": 0,
    }
    return {
        "args": None,
        "cfg": cfg,
        "model": model,
        "optimizer_history": [history],
        "last_optimizer_state": None,
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
        "task_state": identity.task_state(),
    }, result


def _convert_to_ours(
    args: argparse.Namespace, weights: dict[str, Tensor]
) -> tuple[ModelSettings, dict[str, int], dict[str, Tensor]]:
    """Return our settings, numbers of positions and weights for those of any fairseq version."""
    args = argparse.Namespace(**vars(args))
    ARCH_CONFIG_REGISTRY[getattr(args, "arch", None) or args._name](args)
    limits = {}
    for name in LIMITS:
        if getattr(args, name, None) is None:
            setattr(args, name, getattr(args, "max_positions", MAX_POSITIONS))
        limits[name] = getattr(args, name)
    args.encoder_embed_path = args.decoder_embed_path = None  # the checkpoint has the embeddings
    settings = settings_from_fairseq(args)
    model = TransformerModel.build_model(args, _task(weights, "embed_tokens"))
    own = {name: weight for name, weight in weights.items() if not COPIES.fullmatch(name)}
    model.load_state_dict(own)  # also renames weights of old versions
    ours = weights_from_fairseq(model.state_dict())
    if settings.tie_embeddings != "none":
        del ours["decoder.W_vocabulary.weight"]
    return settings, limits, ours


def _convert_to_fairseq(args: argparse.Namespace, weights: dict[str, Tensor]) -> tuple[Any, dict]:
    """Return fairseq's settings and weights for ours."""
    settings = model_settings(args)
    limits = {name: getattr(args, name, MAX_POSITIONS) for name in LIMITS}
    theirs = argparse.Namespace(**settings_for_fairseq(settings, limits))
    task = _task(weights, "embedding")
    ours = Transformer.build_model(SimpleNamespace(**asdict(settings), **limits), task)
    ours.load_state_dict(weights)
    model = TransformerModel.build_model(theirs, task)
    return theirs, weights_for_fairseq(ours, model)


def _task(weights: dict[str, Tensor], embedding: str) -> Any:
    """Return a stand-in for a task, with dictionaries of the right size, to build a model with."""
    sizes = [len(weights[f"{stack}.{embedding}.weight"]) for stack in STACKS]
    source, target = map(_dictionary, sizes)
    return SimpleNamespace(source_dictionary=source, target_dictionary=target, cfg=None)


def _dictionary(size: int) -> Dictionary:
    dictionary = Dictionary()
    for i in range(size - len(dictionary)):
        dictionary.add_symbol(str(i))
    return dictionary
