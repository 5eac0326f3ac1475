"""Our model as a MarianMTModel of Hugging Face's transformers, and back.

MarianMTModel has the paper's post-norm layers and sinusoids, but all sines precede the cosines:
our features 2i and 2i + 1 are its features i and d_model/2 + i. So every vector of width d_model
is permuted, and every weight that reads or writes one.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..model.positions import fairseq_sinusoids, sinusoids
from ..model.transformer import Transformer
from ..paper import ModelSettings
from ..text.dictionary import Vocabulary
from ..text.lines import MAX_SETTINGS_FILE, read_data_file
from .fairseq_names import rename_weight
from .loading import MAX_POSITIONS, build_model
from .safetensors_file import CONFIG_FILE, WEIGHTS_FILE, read_weights
from .torch_file import FileError

SHARED, HEAD, BIAS = "model.shared.weight", "lm_head.weight", "final_logits_bias"
EMBEDDINGS = {stack: f"model.{stack}.embed_tokens.weight" for stack in ("encoder", "decoder")}
POSITIONS = {stack: f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")}
#: Largest difference between rows of the same sinusoids, one of them in bfloat16.
ROUNDING = 0.01
SPECIAL_IDS = {
    "bos_token_id": Vocabulary.bos,
    "pad_token_id": Vocabulary.pad,
    "eos_token_id": Vocabulary.eos,
    "decoder_start_token_id": Vocabulary.eos,
}
#: Settings that the paper's model needs, and that a configuration must give.
REQUIRED = {"activation_function": "relu", "scale_embedding": True, **SPECIAL_IDS}
#: Likewise, with transformers' defaults for those that the configuration does not give.
OPTIONAL = {"encoder_layerdrop": 0, "decoder_layerdrop": 0, "activation_dropout": 0}
#: The search of generate() that comes closest to the paper's (§6.1).
GENERATION = {
    **SPECIAL_IDS,
    "forced_eos_token_id": Vocabulary.eos,
    "suppress_tokens": [Vocabulary.pad],
    "num_beams": 4,
    "length_penalty": 0.5,
    "early_stopping": False,
    "max_length": 256,
    "min_new_tokens": 1,
}


def build_config(settings: ModelSettings, vocabulary: int, max_positions: int) -> dict[str, Any]:
    """Return the content of a MarianMTModel's config.json.

    Raises InputError for what it cannot express: restricted attention, and heads wider than
    d_model / h.
    """
    if settings.neighbourhood is not None:
        raise InputError("MarianMTModel does not support attention restricted to a neighbourhood")
    d_k, d_v = settings.head_widths()
    if settings.d_model % settings.h or max(d_k, d_v) > settings.d_model // settings.h:
        raise InputError(
            "MarianMTModel needs an integer d_model / h, and no d_k or d_v above it; the model has "
            f"{settings.d_model} / {settings.h}, d_k {d_k} and d_v {d_v}"
        )
    sizes = {
        "layers": settings.N,
        "attention_heads": settings.h,
        "ffn_dim": settings.d_ff,
        "layerdrop": 0.0,
    }
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        **{f"{stack}_{name}": size for stack in EMBEDDINGS for name, size in sizes.items()},
        "d_model": settings.d_model,
        "dropout": settings.dropout,
        "attention_dropout": settings.attention_dropout,
        "activation_dropout": 0.0,
        "init_std": settings.d_model**-0.5,
        "vocab_size": vocabulary,
        "decoder_vocab_size": vocabulary,
        "max_position_embeddings": max_positions,
        "share_encoder_decoder_embeddings": settings.tie_embeddings == "all",
        "tie_word_embeddings": settings.tie_embeddings != "none",
        "is_encoder_decoder": True,
        "forced_eos_token_id": Vocabulary.eos,
        "positions": settings.positions,  # not in transformers: see _positions_kind
        **REQUIRED,
    }


def build_weights(
    model: Transformer, settings: ModelSettings, model_ids: Sequence[int]
) -> dict[str, Tensor]:
    """Return the weights of a MarianMTModel that computes what the model does, in float32.

    model_ids: see text.fast_tokenizer. Each added token shares the row of its model ID and has a
    logit of −∞, so the probabilities of the dictionary's tokens do not change.
    """
    ours = model.float().cpu().state_dict()
    order, width = _sines_first(settings.d_model), settings.d_model // settings.h
    theirs = {}
    for name in _layer_weights(settings.N):
        weight = ours.get(rename_weight(name))
        module, kind = name.split(".")[-2:]
        if weight is None:  # a bias of attention
            weight = torch.zeros(settings.d_model)
        elif module in ("q_proj", "k_proj", "v_proj"):
            weight = _pad_heads(weight, settings.h, width)
            if module == "q_proj":  # q is divided by √width instead of √d_k
                weight *= math.sqrt(width / settings.head_widths()[0])
        elif module == "out_proj" and kind == "weight":
            weight = _pad_heads(weight.T, settings.h, width).T
        theirs[f"model.{name}"] = _permute(weight, module, kind, order)
    rows = torch.tensor([*range(len(model.decoder.projection)), *model_ids])
    vectors = {
        SHARED: model.encoder.embedding.weight,
        EMBEDDINGS["encoder"]: model.encoder.embedding.weight,
        EMBEDDINGS["decoder"]: model.decoder.embedding.weight,
        HEAD: model.decoder.projection,
    }
    for name in _vector_names(settings.tie_embeddings):
        theirs[name] = vectors[name][rows][:, order]
    length = max_positions(model)
    for stack, name in POSITIONS.items():
        table = getattr(model, stack).positions(torch.arange(length)[None], length)[0]
        theirs[name] = table[:, order]
    theirs[BIAS] = torch.zeros(1, len(rows))
    theirs[BIAS][:, len(rows) - len(model_ids) :] = -math.inf
    return {name: weight.detach().contiguous() for name, weight in theirs.items()}


def read_marian(directory: Path, vocabulary: int) -> tuple[ModelSettings, int, dict[str, Tensor]]:
    """Return settings, number of positions and weights of our model from a MarianMTModel's.

    vocabulary: the number of entries of its dictionary. Raises InputError if the files are broken
    or if the paper's model cannot express theirs, and OSError.
    """
    try:
        config = json.loads(read_data_file(directory / CONFIG_FILE, MAX_SETTINGS_FILE))
        settings = _read_settings(config)
        if not (path := directory / WEIGHTS_FILE).is_file():
            raise InputError(
                f"{WEIGHTS_FILE} is missing: save the model with save_pretrained (before "
                "transformers 4.35 with safe_serialization=True)"
            )
        weights = read_weights(path)
        settings, ours = _convert_weights(weights, settings, vocabulary)
        table = weights.get(POSITIONS["encoder"])
        length = MAX_POSITIONS if table is None else len(table)
        build_model(settings, ours, (vocabulary, vocabulary), (length, length))
    except (InputError, FileError) as error:
        raise InputError(f"{directory}: {error}") from None
    except KeyError as error:
        raise InputError(f"{directory}: {error} is missing from the model") from None
    except (TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RuntimeError) as e:
        why = str(e).partition("\n")[0]
        raise InputError(f"{directory}: not an intact MarianMTModel: {why}") from None
    return settings, length, ours


def _read_settings(config: dict[str, Any]) -> ModelSettings:
    """Return the settings; those inferred from weights (biases, positions) are added later."""
    if config["model_type"] != "marian":
        raise InputError(f"its model_type is {config['model_type']!r:.40}, not 'marian'")
    sizes = {name: config[f"encoder_{name}"] for name in ("layers", "attention_heads", "ffn_dim")}
    expected = {**REQUIRED, **OPTIONAL} | {f"decoder_{name}": sizes[name] for name in sizes}
    config = {**dict.fromkeys(REQUIRED), **OPTIONAL, **config}
    actual = {name: config[name] for name in expected}
    if different := [name for name in expected if actual[name] != expected[name]]:
        wrong = ", ".join(f"{name} is {actual[name]!r:.40}" for name in different)
        right = ", ".join(f"{expected[name]!r:.40}" for name in different)
        raise InputError(f"the paper's model cannot express its settings: {wrong}, not {right}")
    share = config.get("share_encoder_decoder_embeddings", True)
    tie = config.get("tie_word_embeddings", True)
    if share and not tie:
        raise InputError("the paper's model cannot share embeddings without the projection")
    N, h, d_ff, d_model = map(int, (*sizes.values(), config["d_model"]))
    if min(N, h, d_ff, d_model) < 1 or d_model % h:
        raise ValueError(f"{N} layers, {h} heads, widths {d_model} and {d_ff}")
    return ModelSettings(
        N=N,
        h=h,
        d_ff=d_ff,
        d_model=d_model,
        dropout=float(config.get("dropout", 0.1)),
        attention_dropout=float(config.get("attention_dropout", 0.0)),
        tie_embeddings="all" if share else "target" if tie else "none",
        positions=str(config.get("positions", "sinusoids")),
    )


def _convert_weights(
    theirs: Mapping[str, Tensor], settings: ModelSettings, vocabulary: int
) -> tuple[ModelSettings, dict[str, Tensor]]:
    """Return the settings, completed from the weights, and our weights."""
    bias = theirs.get(BIAS, torch.zeros(1, vocabulary))[0]
    if bias[:vocabulary].any():
        raise InputError(f"{BIAS} is not 0, but the paper's projection (§3.4) has no bias")
    if len(bias) < vocabulary or bias[vocabulary:].gt(-math.inf).any():
        raise InputError(
            f"the model has a vocabulary of {len(bias):,} tokens, but the dictionary has "
            f"{vocabulary:,}: give the --data that it was exported with"
        )
    names = _vector_names(settings.tie_embeddings)
    table = theirs[names[-1]]
    if table.size(1) != settings.d_model:
        raise ValueError(f"d_model is {settings.d_model}, and embeddings have {table.size(1)}")
    order = _sines_first(settings.d_model).argsort()
    ours = {}
    for name in _layer_weights(settings.N):
        module, kind = name.split(".")[-2:]
        weight = theirs[f"model.{name}"].float()
        ours[rename_weight(name)] = _permute(weight, module, kind, order)
    rows = {name: theirs[name][:vocabulary, order].float() for name in names}
    for stack, name in EMBEDDINGS.items():
        ours[f"{stack}.embedding.weight"] = rows[name if name in rows else SHARED]
    if HEAD in rows:
        ours["decoder.W_vocabulary.weight"] = rows[HEAD]
    known = {f"model.{name}" for name in _layer_weights(settings.N)}
    known |= {SHARED, HEAD, BIAS, *EMBEDDINGS.values(), *POSITIONS.values()}
    if unknown := sorted(theirs.keys() - known):
        raise InputError(f"the paper's model has no weight {unknown[0]}")
    biases = [name for name in ours if "attention.W_" in name and name.endswith("bias")]
    has_bias = any(ours[name].any() for name in biases)
    if not has_bias:
        for name in biases:
            del ours[name]
    tables = {stack: theirs[name][:, order] for stack, name in POSITIONS.items() if name in theirs}
    if not tables and settings.positions != "sinusoids":
        raise InputError(
            "its table of positions is missing, as save_pretrained leaves it out: copy "
            f"{' and '.join(POSITIONS.values())} from the exported {WEIGHTS_FILE}"
        )
    positions = _positions_kind(tables)
    if positions == "learned":
        ours |= {f"{stack}.positions.weight": table.float() for stack, table in tables.items()}
    return replace(settings, attention_bias=has_bias, positions=positions), ours


def _positions_kind(tables: Mapping[str, Tensor]) -> str:
    """Return the kind of the position tables of both stacks; without tables, sinusoids.

    transformers' save_pretrained leaves the tables out, and from_pretrained then computes
    sinusoids. A model with different positions therefore records them in its configuration.
    """
    for kind, formula in (("sinusoids", sinusoids), ("fairseq", fairseq_sinusoids)):
        if all(
            table.size(1) % 2 == 0 and (table - formula(*table.shape)).abs().max() < ROUNDING
            for table in tables.values()
        ):
            return kind
    return "learned"


def max_positions(model: Transformer) -> int:
    """Return the number of positions that both stacks have; sinusoids have MAX_POSITIONS."""
    limits = [model.encoder.positions.max_positions, model.decoder.positions.max_positions]
    return min(limit or MAX_POSITIONS for limit in limits)


def _layer_weights(N: int) -> Iterator[str]:
    """Yield fairseq's names of the weights of all layers, with the biases of attention."""
    for stack, attentions in (
        ("encoder", ["self_attn"]),
        ("decoder", ["self_attn", "encoder_attn"]),
    ):
        modules = ["fc1", "fc2", "final_layer_norm"]
        for attention in attentions:
            modules += [f"{attention}.{name}_proj" for name in ("q", "k", "v", "out")]
            modules.append(f"{attention}_layer_norm")
        for i in range(N):
            for module in modules:
                yield f"{stack}.layers.{i}.{module}.weight"
                yield f"{stack}.layers.{i}.{module}.bias"


def _vector_names(tie_embeddings: str) -> list[str]:
    """Return the names of the matrices with a row for each token."""
    if tie_embeddings == "all":
        return [SHARED]
    return [*EMBEDDINGS.values(), *[HEAD] * (tie_embeddings == "none")]


def _sines_first(d_model: int) -> Tensor:
    """Return the order of our features in a MarianMTModel: 0, 2, …, 1, 3, …"""
    return torch.cat((torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)))


def _permute(weight: Tensor, module: str, kind: str, order: Tensor) -> Tensor:
    """Reorder the side of a layer's weight that reads or writes a vector of width d_model."""
    if module in ("q_proj", "k_proj", "v_proj", "fc1"):  # read the vector
        return weight[:, order] if kind == "weight" else weight
    return weight[order]


def _pad_heads(weight: Tensor, h: int, width: int) -> Tensor:
    """Widen each of h heads (h·d, …) to (h·width, …) with zeros."""
    heads = weight.unflatten(0, (h, -1))
    padded = weight.new_zeros(h, width, *weight.shape[1:])
    padded[:, : heads.size(1)] = heads
    return padded.flatten(0, 1)
