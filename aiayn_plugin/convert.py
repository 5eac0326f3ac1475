"""Checkpoints of fairseq's post-norm `transformer` family in the plugin's model, and back."""

import argparse
import dataclasses
from types import SimpleNamespace
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerModel
from torch import Tensor

from .checkpoint import configuration
from .transformer import Transformer, TransformerConfig

#: Parts of the names of weights, fairseq's and ours; final_layer_norm is the stack's last.
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
#: Options of fairseq's model that the paper's has not, and the value under which they do nothing.
OFF = {
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
#: fairseq's learned positions have two rows before the first, as many as padding_idx + 1.
OFFSET = 2


def our_name(name: str) -> str:
    """The name of one of fairseq's weights in our model."""
    final = "add_norms.1.norm" if name.startswith("encoder") else "add_norms.2.norm"
    names = {**NAMES, "final_layer_norm": final}
    return ".".join(names.get(part, part) for part in name.split("."))


def settings_from_fairseq(args: Any) -> dict[str, Any]:
    """Our model's settings for those of a fairseq transformer.

    Raises ValueError where the paper's model has no such thing.
    """
    for name, off in OFF.items():
        if (value := getattr(args, name, off)) != off and (value or off):
            raise ValueError(f"the paper's model has no {name} (here {value}): cannot convert")
    found: dict[str, Any] = {"_name": "aiayn_transformer", "d_k": None, "d_v": None}
    widths = {"layers": "N", "embed_dim": "d_model", "ffn_embed_dim": "d_ff",
              "attention_heads": "h", "learned_pos": "positions"}
    for theirs, ours in widths.items():
        encoder, decoder = (getattr(args, f"{stack}_{theirs}") for stack in ("encoder", "decoder"))
        if encoder != decoder:
            raise ValueError(f"encoder and decoder differ in {theirs} ({encoder} and {decoder}), "
                             "and the paper's have the same: cannot convert")
        found[ours] = encoder
    if int(args.decoder_output_dim) != found["d_model"]:
        raise ValueError(f"decoder_output_dim {args.decoder_output_dim} is not d_model "
                         f"{found['d_model']}: cannot convert")
    tied = "target" if args.share_decoder_input_output_embed else "none"
    return {
        **found,
        "positions": "learned" if found["positions"] else "fairseq",
        "dropout": args.dropout,
        "attention_dropout": args.attention_dropout,
        "attention_bias": True,
        "neighbourhood": None,
        "tie_embeddings": "all" if args.share_all_embeddings else tied,
        "max_source_positions": args.max_source_positions,
        "max_target_positions": args.max_target_positions,
    }


def settings_for_fairseq(cfg: Any) -> argparse.Namespace:
    """fairseq's settings for those of our model.

    Raises ValueError where fairseq's transformer cannot be this model.
    """
    d_k, d_v = TransformerConfig.head_widths(cfg)
    if cfg.positions == "sinusoids":
        raise ValueError("fairseq's transformer has not the paper's sinusoids: only models with "
                         "--positions fairseq or learned can be converted")
    if not d_k == d_v == cfg.d_model / cfg.h:
        raise ValueError("fairseq's transformer has no d_k or d_v other than d_model / h")
    if cfg.neighbourhood is not None:
        raise ValueError("fairseq's transformer has no restricted self-attention")
    both = {"layers": cfg.N, "embed_dim": cfg.d_model, "ffn_embed_dim": cfg.d_ff,
            "attention_heads": cfg.h, "learned_pos": cfg.positions == "learned",
            "normalize_before": False}
    return argparse.Namespace(
        _name="transformer",
        arch="transformer",
        **{f"{stack}_{name}": v for name, v in both.items() for stack in ("encoder", "decoder")},
        activation_fn="relu",
        dropout=cfg.dropout,
        attention_dropout=cfg.attention_dropout,
        share_all_embeddings=cfg.tie_embeddings == "all",
        share_decoder_input_output_embed=cfg.tie_embeddings != "none",
        max_source_positions=cfg.max_source_positions,
        max_target_positions=cfg.max_target_positions,
    )


def weights_from_fairseq(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """fairseq's weights under our names; what our model has not, it does not look for."""
    ours = {}
    for name, weight in weights.items():
        if name.endswith(("version", "_float_tensor")):
            continue
        offset = OFFSET if "embed_positions" in name else 0
        ours[our_name(name)] = weight[offset:]
    return ours


def weights_for_fairseq(ours: Transformer, theirs: TransformerModel) -> dict[str, Tensor]:
    """Our model's weights under fairseq's names, for a fairseq model of its size."""
    state = {**ours.state_dict(), "decoder.W_vocabulary.weight": ours.projection}
    weights = {}
    for name, weight in theirs.state_dict().items():
        found = state.get(our_name(name))
        if found is None and name.endswith("proj.bias"):
            found = torch.zeros_like(weight)
        if found is not None and "embed_positions" in name:
            found = torch.cat((found.new_zeros(OFFSET, found.size(1)), found))
        weights[name] = weight if found is None else found.detach()
    return weights


def convert(state: dict) -> tuple[dict, str]:
    """A checkpoint of fairseq's transformer as one of ours, or one of ours as one of fairseq's.

    state is what a checkpoint file holds; the result, without an optimiser's state, is what a file
    can hold. Returns it with a word on what it is. Raises ValueError where it cannot be done.
    """
    cfg, name = configuration(state)
    settings, weights = cfg["model"], state["model"]
    kind = ARCH_MODEL_REGISTRY.get(name)
    try:
        if kind is TransformerModel:
            cfg["model"], model = _ours(settings, weights)
            made = "aiayn_transformer"
        elif kind is Transformer or name == "aiayn_transformer":
            cfg["model"], model = _theirs(settings, weights)
            cfg["task"]["_name"] = "translation"
            made = "fairseq's transformer"
        else:
            raise ValueError(f"a model of architecture {name} is not of fairseq's transformer "
                             "family, nor one of aiayn_plugin's")
    except (KeyError, RuntimeError) as error:  # of torch, where the weights do not fit
        raise ValueError(f"the weights are not those of a {name}: {error}") from None
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {},
               "num_updates": 0}
    return {
        "args": None,
        "cfg": cfg,
        "model": model,
        "optimizer_history": [history],
        "last_optimizer_state": None,
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
        "task_state": {},
    }, made


def _ours(args: argparse.Namespace, weights: dict[str, Tensor]) -> tuple[dict, dict]:
    """Our settings and weights for fairseq's, which fairseq's model renames where they are old."""
    args = argparse.Namespace(**vars(args))
    ARCH_CONFIG_REGISTRY[getattr(args, "arch", None) or args._name](args)
    for side in ("source", "target"):
        name = f"max_{side}_positions"
        if getattr(args, name, None) is None:
            setattr(args, name, getattr(args, "max_positions", 1024))
    args.encoder_embed_path = args.decoder_embed_path = None  # the checkpoint has the embeddings
    settings = settings_from_fairseq(args)
    model = TransformerModel.build_model(args, _task(weights, "embed_tokens"))
    model.load_state_dict(dict(weights))
    ours = weights_from_fairseq(model.state_dict())
    if settings["tie_embeddings"] != "none":
        del ours["decoder.W_vocabulary.weight"]
    return settings, ours


def _theirs(settings: argparse.Namespace, weights: dict[str, Tensor]) -> tuple[Any, dict]:
    """fairseq's settings and weights for ours."""
    known = {f.name: f.default for f in dataclasses.fields(TransformerConfig)}
    known.update(max_source_positions=1024, max_target_positions=1024)  # where they are not stored
    args = argparse.Namespace(**{**known, **vars(settings)})
    theirs = settings_for_fairseq(args)
    task = _task(weights, "embedding")
    ours = Transformer.build_model(args, task)  # type: ignore[arg-type]
    ours.load_state_dict(weights)
    model = TransformerModel.build_model(argparse.Namespace(**vars(theirs)), task)
    return theirs, weights_for_fairseq(ours, model)


def _task(weights: dict[str, Tensor], embedding: str) -> Any:
    """What building a model asks of a task: dictionaries of the right length."""
    sizes = [weights[f"{stack}.{embedding}.weight"].size(0) for stack in ("encoder", "decoder")]
    source, target = map(_dictionary, sizes)
    return SimpleNamespace(source_dictionary=source, target_dictionary=target, cfg=None)


def _dictionary(size: int) -> Dictionary:
    dictionary = Dictionary()
    for i in range(size - len(dictionary)):
        dictionary.add_symbol(str(i))
    return dictionary
