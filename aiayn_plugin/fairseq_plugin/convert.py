"""Convert checkpoints between fairseq's post-norm `transformer` family and the plugin's model."""

import copy
import re
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerModel
from torch import Tensor

from ..checkpoints.compatibility import SIDES, Identity, settings_without_shape
from ..checkpoints.fairseq_names import rename_weight
from ..checkpoints.loading import MAX_POSITIONS, model_settings
from ..checkpoints.safe_load import configuration
from ..checkpoints.safetensors_file import EMPTY_TRAINING_STATE
from ..errors import InputError
from ..paper import ModelSettings
from . import raw_text
from .model import AiaynTransformer
from .option_names import LEARNED, STACK_OPTIONS, STACKS, TIES

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
    "quant_noise_pq": 0,
    **{f"scale_{part}": False for part in ("attn", "fc", "heads", "resids")},
}
#: Copies of an encoder layer's weights that fairseq 0.12.2 stores, and recreates when loading.
COPIES = re.compile(r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)")
#: Rows of fairseq's learned positions before the first position: padding_idx + 1.
FIRST_POSITION = 2
#: Entries of fairseq's state_dict that are not weights.
BUFFERS = ("version", "_float_tensor")
LIMITS = ("max_source_positions", "max_target_positions")


def settings_from_fairseq(args: Any) -> ModelSettings:
    """Convert the settings of a fairseq transformer to the plugin's.

    Raises InputError if the paper's model cannot express them.
    """
    ties = [value for name, value in TIES.items() if getattr(args, name)]
    settings = ModelSettings(
        **{ours: getattr(args, f"encoder_{theirs}") for theirs, ours in STACK_OPTIONS.items()},
        positions="learned" if args.encoder_learned_pos else "fairseq",
        dropout=args.dropout,
        attention_dropout=args.attention_dropout,
        attention_bias=True,
        tie_embeddings=ties[-1] if ties else "none",
    )
    required = {**settings_to_fairseq(settings), "decoder_output_dim": settings.d_model}
    for name, needed in required.items():
        value = getattr(args, name, needed)
        # None, False and 0 all mean "off" in fairseq.
        if name not in TIES and value != needed and (value or needed):
            raise InputError(
                f"cannot convert: {name} is {value}, but must be {needed} in the paper's model"
            )
    return settings


def settings_to_fairseq(settings: ModelSettings) -> dict[str, Any]:
    """Convert the plugin's settings to those of a fairseq transformer.

    Raises InputError if fairseq's transformer cannot express them.
    """
    if settings.positions == "sinusoids":
        raise InputError(
            "fairseq's transformer does not have the paper's sinusoids: only models with "
            "--positions fairseq or learned can be converted"
        )
    if set(settings.head_widths()) != {settings.d_model / settings.h}:
        raise InputError("fairseq's transformer supports only d_k = d_v = d_model / h")
    if settings.neighbourhood is not None:
        raise InputError("fairseq's transformer has no restricted self-attention")
    both = {theirs: getattr(settings, ours) for theirs, ours in STACK_OPTIONS.items()}
    both[LEARNED] = settings.positions == "learned"
    return {
        **DISABLED,
        **{f"{stack}_{name}": value for name, value in both.items() for stack in STACKS},
        "dropout": settings.dropout,
        "attention_dropout": settings.attention_dropout,
        **{name: settings.tie_embeddings in (value, "all") for name, value in TIES.items()},
    }


def weights_from_fairseq(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename fairseq's weights to the plugin's names."""
    return {
        rename_weight(name): weight[FIRST_POSITION if "embed_positions" in name else 0 :]
        for name, weight in weights.items()
        if not name.endswith(BUFFERS) and not COPIES.fullmatch(name)
    }


def weights_to_fairseq(
    weights: Mapping[str, Tensor], theirs: Mapping[str, Tensor], settings: ModelSettings
) -> dict[str, Tensor]:
    """Rename the plugin's weights to fairseq's names.

    theirs: the state_dict of a new fairseq model. Raises KeyError for a missing weight, and
    InputError for one that the model does not have.
    """
    ours = dict(weights)
    if settings.tie_embeddings != "none":
        ours.setdefault("decoder.W_vocabulary.weight", ours["decoder.embedding.weight"])
    converted, used = {}, set()
    for name, default in theirs.items():
        if name.endswith(BUFFERS):
            converted[name] = default
        elif name.endswith("proj.bias") and not settings.attention_bias:
            converted[name] = torch.zeros_like(default)
        elif not COPIES.fullmatch(name):
            used.add(rename_weight(name))
            weight = ours[rename_weight(name)]
            if "embed_positions" in name:
                weight = torch.cat((weight.new_zeros(FIRST_POSITION, weight.size(1)), weight))
            converted[name] = weight
    if unused := sorted(ours.keys() - used):
        raise InputError(f"the model that the settings describe has no weight {unused[0]}")
    return converted


def convert(state: dict) -> tuple[dict, str]:
    """Convert fairseq's transformer to our model, or ours to fairseq's.

    state: the content of a checkpoint. Returns the content of the converted one, which has no
    optimizer state, and the name of its kind of model. Raises InputError if the model cannot be
    converted.
    """
    cfg, name = configuration(state)
    original = Identity.read(state.get("task_state"))
    languages = original.languages or _read_languages(cfg["task"])
    args, weights = copy.copy(cfg["model"]), state["model"]
    kind = ARCH_MODEL_REGISTRY.get(name)
    try:
        if kind is TransformerModel:
            ours, cfg["model"], model = _convert_to_ours(args, weights)
            if cfg["task"].get("_name") == "translation":
                cfg["task"]["_name"] = "aiayn_translation"
            identity = Identity(original.dictionaries, settings_without_shape(ours), languages)
            result = "aiayn_transformer"
        elif kind is AiaynTransformer:
            cfg["model"], model = _convert_to_fairseq(args, weights)
            cfg["task"]["_name"] = "translation"
            if cfg["task"].get("eval_bleu_detok") == raw_text.NAME:  # reads our task's data
                cfg["task"]["eval_bleu_detok"] = "space"
            identity = Identity(original.dictionaries, languages=languages)
            result = "fairseq's transformer"
        else:
            raise InputError(
                f"the architecture {name} belongs neither to fairseq's transformer family nor to "
                "aiayn_plugin"
            )
    except InputError:
        raise
    except Exception as error:  # settings and weights may be malformed in any way
        raise InputError(f"the settings or weights do not fit a {name}: {error}") from None
    task_state = identity.task_state()
    return {"cfg": cfg, "model": model, "task_state": task_state, **EMPTY_TRAINING_STATE}, result


def _read_languages(task: Mapping[str, Any]) -> dict[str, str]:
    """Return the source and target language in a task's settings; empty if one is unknown."""
    languages: dict[str, Any] = {side: task.get(f"{side}_lang") for side in SIDES}
    return languages if all(isinstance(lang, str) for lang in languages.values()) else {}


def _convert_to_ours(
    args: Namespace, weights: dict[str, Tensor]
) -> tuple[ModelSettings, dict[str, Any], dict[str, Tensor]]:
    """Return the plugin's ModelSettings, its configuration for a checkpoint, and its weights.

    args: the settings of any version of fairseq.
    """
    complete_settings = ARCH_CONFIG_REGISTRY[getattr(args, "arch", None) or args._name]
    complete_settings(args)  # adds the defaults of the architecture
    for name in LIMITS:
        if getattr(args, name, None) is None:
            setattr(args, name, getattr(args, "max_positions", MAX_POSITIONS))
    args.encoder_embed_path = args.decoder_embed_path = None  # the checkpoint has the embeddings
    settings = settings_from_fairseq(args)
    model = TransformerModel.build_model(args, _task(weights, "embed_tokens"))
    needed = {name: weight for name, weight in weights.items() if not COPIES.fullmatch(name)}
    model.load_state_dict(needed)  # also renames weights of old versions
    ours = weights_from_fairseq(model.state_dict())
    if settings.tie_embeddings != "none":
        del ours["decoder.W_vocabulary.weight"]
    limits = {name: getattr(args, name) for name in LIMITS}
    return settings, {"_name": "aiayn_transformer", **asdict(settings), **limits}, ours


def _convert_to_fairseq(args: Namespace, weights: dict[str, Tensor]) -> tuple[Namespace, dict]:
    """Return fairseq's settings and weights for ours."""
    settings = model_settings(args)
    limits = {name: getattr(args, name, MAX_POSITIONS) for name in LIMITS}
    names = {"_name": "transformer", "arch": "transformer"}
    theirs = Namespace(**names, **settings_to_fairseq(settings), **limits)
    model = TransformerModel.build_model(theirs, _task(weights, "embedding"))
    converted = weights_to_fairseq(weights, model.state_dict(), settings)
    model.load_state_dict(converted)  # compares the shapes
    return theirs, converted


def _task(weights: dict[str, Tensor], embedding: str) -> Any:
    """Return a stand-in for a task, with dictionaries of the right size, to build a model with."""
    dictionaries = {}
    for stack, side in zip(STACKS, ("source", "target"), strict=True):
        dictionary = dictionaries[f"{side}_dictionary"] = Dictionary()
        for i in range(len(dictionary), len(weights[f"{stack}.{embedding}.weight"])):
            dictionary.add_symbol(str(i))
    return Namespace(**dictionaries, cfg=None)
