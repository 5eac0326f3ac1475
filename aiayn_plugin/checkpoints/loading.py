"""Models built from settings, and loaded from a checkpoint without fairseq."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any

from torch.overrides import TorchFunctionMode

from ..errors import InputError
from ..model.transformer import Encoder, Transformer
from ..paper import ModelSettings, count_parameters
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
        limits = {side: _max_positions(side, vars(cfg["model"]), task) for side in SIDES}
        sizes = len(source), len(target)
        positions = limits["source"], limits["target"]
        with limit_memory(checkpoint):
            model = build_model(settings, state["model"], sizes, positions)
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
    max_positions: tuple[int, int],
) -> Transformer:
    """Return a model with these weights; see Transformer for the other arguments.

    Raises InputError if the weights do not fit the settings.
    """
    _check_size(settings, weights, sum(max_positions) // 2)
    with _UninitializedWeights():
        model = Transformer(settings, *vocabularies, max_positions)
    check_shapes(weights, model.state_dict(keep_vars=True))
    model.load_state_dict(weights)
    return model


def max_source_tokens(encoder: Encoder, max_source_positions: int) -> int:
    """Return the number of tokens, end symbol included, of the longest sentence to read whole.

    max_source_positions: the limit during training, which the paper's sinusoids may exceed (§3.5).
    """
    if encoder.positions.max_positions is None:
        return max(max_source_positions, MAX_SENTENCE)
    return min(max_source_positions, encoder.positions.max_positions)


class _UninitializedWeights(TorchFunctionMode):
    """Skips the initialisation of new weights, because a checkpoint replaces them all."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in ("normal_", "uniform_", "xavier_uniform_"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def _read_settings(cfg: Any) -> ModelSettings:
    """Return the model's settings without dropout. Raises TypeError for a wrong type."""
    settings = replace(model_settings(cfg), dropout=0.0, attention_dropout=0.0)
    for field in fields(settings):
        value, kind = getattr(settings, field.name), type(field.default)
        kinds = {float: (float, int), type(None): (int, kind)}.get(kind, (kind,))
        if not isinstance(value, kinds):
            raise TypeError(f"{field.name} is {value!r:.40}")
    return settings


def _check_size(settings: ModelSettings, state: Mapping[str, Any], max_positions: int) -> None:
    """Raise InputError if the settings need more weights than there are, not counting embeddings.

    Otherwise corrupt settings could exhaust memory.
    """
    elements = sum(weight.numel() for weight in state.values())
    needed = count_parameters(settings, 0, 0, max_positions)
    if needed > elements:
        raise InputError(
            f"the checkpoint has a different architecture: its settings need {needed:,} weights "
            f"in addition to the embeddings, and it has {elements:,}"
        )


def _max_positions(side: str, *settings: Mapping[str, Any]) -> int:
    """Return the maximum number of positions of a side, from the first settings that give it."""
    name = f"max_{side}_positions"
    return int(next(filter(None, (group.get(name) for group in settings)), MAX_POSITIONS))
