"""Models built from settings, and loaded from a checkpoint without fairseq."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any

import torch

from ..errors import InputError
from ..model.positions import build_positions
from ..model.transformer import Encoder, Transformer
from ..paper import ModelSettings
from ..text.dictionary import Vocabulary
from ..text.manifest import read_verified_dictionary
from ..text.settings import TextSettings
from .bundle import task_settings
from .compatibility import SIDES, Identity, check_shapes
from .safe_load import configuration, limit_memory, load

#: fairseq's default for --max-source-positions and --max-target-positions.
MAX_POSITIONS = 1024
#: Tokens of the longest sentence that is processed whole if positions are unlimited. Attention
#: takes time quadratic in its length, and the key-value cache grows linearly with it.
MAX_SENTENCE = 4096


@dataclass(frozen=True)
class LoadedModel:
    """A model and its two vocabularies."""

    model: Transformer
    source: Vocabulary
    target: Vocabulary
    max_source_tokens: int  #: including the end symbol
    translator: Any = None  #: CTranslate2's, if that is the engine


def model_settings(cfg: Any) -> ModelSettings:
    """Return our model's settings from fairseq's configuration; defaults if absent."""
    known: dict[str, Any] = {f.name: getattr(cfg, f.name, f.default) for f in fields(ModelSettings)}
    for name, value in known.items():
        if isinstance(value, Enum):  # fairseq's choices
            known[name] = str(value)
    return ModelSettings(**known)


def check_joined_dictionary(settings: ModelSettings, source: Any, target: Any) -> None:
    """Raise InputError if one matrix would embed two dictionaries whose `symbols` differ."""
    if settings.tie_embeddings == "all" and source.symbols != target.symbols:
        raise InputError(
            "the source and target dictionaries differ, but one matrix embeds both (§3.4): prepare "
            "the data with a joined dictionary, or train with --tie-embeddings target"
        )


def load_model(checkpoint: Path, data: Path, text: TextSettings) -> LoadedModel:
    """Return the model of a checkpoint, in float32, with the dictionaries in `data`.

    text: the settings in `data`. Raises InputError if the checkpoint's weights, settings,
    dictionaries and direction do not fit each other, or if a file is missing, changed or broken.
    """
    state = load(checkpoint)
    task = task_settings(state, checkpoint)
    words = [read_verified_dictionary(data / name) for name in text.dictionaries]
    source, target = map(Vocabulary, words)
    try:
        cfg, _ = configuration(state)
        settings = _read_settings(cfg["model"])
        trained = Identity.read(state.get("task_state"))
        expected = Identity.of(words, settings, text.languages)
        trained.check_settings(expected)
        trained.check_dictionaries(expected, data, text.dictionaries)
        check_joined_dictionary(settings, source, target)
        limits = [_max_positions(side, vars(cfg["model"]), task) for side in SIDES]
        with limit_memory(checkpoint):
            model = build_model(settings, state["model"], (len(source), len(target)), limits)
        longest = max_source_tokens(model.encoder, _max_positions("source", task))
        if longest < 2:
            raise ValueError(f"max_source_positions {longest} leaves no space for a word")
    except InputError as error:
        raise InputError(f"{checkpoint}: {error}") from None
    except (TypeError, ValueError, LookupError, ArithmeticError, RuntimeError) as error:
        why = str(error).partition("\n")[0]
        raise InputError(f"{checkpoint}: its settings are invalid: {why}") from None
    return LoadedModel(model.eval(), source, target, longest)


def build_model(
    settings: ModelSettings,
    weights: Mapping[str, Any],
    vocabularies: tuple[int, int],
    max_positions: Sequence[int],
) -> Transformer:
    """Return a model with these weights; see Transformer for the other arguments.

    Raises InputError if the weights do not fit the settings.
    """
    source, target = max_positions
    with torch.device("meta"):  # allocates nothing, whatever the settings ask for
        model = Transformer(settings, *vocabularies, (source, target))
    check_shapes(weights, model.state_dict(keep_vars=True))
    model.to_empty(device="cpu")
    for stack, limit in ((model.encoder, source), (model.decoder, target)):
        # a table of sinusoids is not among the weights
        stack.positions = build_positions(settings.positions, settings.d_model, limit)
    model.load_state_dict(weights)
    return model


def max_source_tokens(encoder: Encoder, max_source_positions: int) -> int:
    """Return the number of tokens, end symbol included, of the longest sentence to read whole.

    max_source_positions: the limit during training, which the paper's sinusoids may exceed (§3.5).
    """
    if encoder.positions.max_positions is None:
        return max(max_source_positions, MAX_SENTENCE)
    return min(max_source_positions, encoder.positions.max_positions)


def _read_settings(cfg: Any) -> ModelSettings:
    """Return the model's settings without dropout. Raises TypeError for a wrong type."""
    settings = replace(model_settings(cfg), dropout=0.0, attention_dropout=0.0)
    for field in fields(settings):
        value, kind = getattr(settings, field.name), type(field.default)
        kinds = {float: (float, int), type(None): (int, kind)}.get(kind, (kind,))
        if not isinstance(value, kinds):
            raise TypeError(f"{field.name} is {value!r:.40}")
    return settings


def _max_positions(side: str, *settings: Mapping[str, Any]) -> int:
    """Return the maximum number of positions of a side, from the first settings that give it."""
    name = f"max_{side}_positions"
    return int(next(filter(None, (group.get(name) for group in settings)), MAX_POSITIONS))
