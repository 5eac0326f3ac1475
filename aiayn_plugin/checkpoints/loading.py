"""A model out of a checkpoint, without fairseq: to translate, or to look into."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from torch.overrides import TorchFunctionMode

from ..errors import InputError
from ..model.transformer import Decoder, Encoder, EncoderDecoder, embeddings
from ..paper import ModelSettings, count_parameters
from ..text.dictionary import Vocabulary, hash_words
from ..text.manifest import read_verified_dictionary
from .bundle import task_settings
from .compatibility import (
    SIDES,
    check_dictionaries,
    dictionaries_of,
    matching,
    settings_without_shape,
)
from .safe_load import BUFFER, configuration, load

#: fairseq's --max-source-positions and --max-target-positions.
POSITIONS = 1024


@dataclass(frozen=True)
class Loaded:
    """A model, and the words of both of its sides."""

    model: EncoderDecoder
    source: Vocabulary
    target: Vocabulary
    longest: int  #: source tokens of a sentence, with the end symbol


def model_settings(cfg: Any) -> ModelSettings:
    """Return the settings of the model that fairseq's configuration holds.

    What an older checkpoint lacks has its default.
    """
    known: dict[str, Any] = {f.name: getattr(cfg, f.name, f.default) for f in fields(ModelSettings)}
    for name in ("positions", "tie_embeddings"):
        known[name] = str(known[name])  # fairseq's choices are enums
    return ModelSettings(**known)


def load_model(checkpoint: Path, data: Path, source_lang: str, target_lang: str) -> Loaded:
    """Return the model of a checkpoint, in float32, with the dictionaries in `data`.

    Raises InputError if another version of the plugin made the checkpoint, if it is of another
    model than it says or of other dictionaries, or if those are missing, changed or broken.
    """
    task = task_settings(checkpoint)
    names = [f"dict.{lang}.txt" for lang in (source_lang, target_lang)]
    words = [[word for word, _ in read_verified_dictionary(data / name)] for name in names]
    source, target = map(Vocabulary, words)
    state = load(checkpoint)
    here = dict(zip(SIDES, map(hash_words, words), strict=True))
    try:
        check_dictionaries(dictionaries_of(state.get("task_state") or {}), here, data, names)
        cfg, _ = configuration(state)
        elements = sum(weight.numel() for weight in state["model"].values())
        with _Uninitialised():
            model = _built(cfg["model"], task, source, target, elements)
        model.load_state_dict(matching(state["model"], model.state_dict()))
        longest = min(_positions("source", task), model.encoder.longest)
        if longest < 2:
            raise ValueError(f"max_source_positions {longest} leaves no room for a word")
    except InputError as error:
        raise InputError(f"{checkpoint}: {error}") from None
    except (TypeError, ValueError, LookupError, ArithmeticError, RuntimeError) as error:
        why = str(error).partition("\n")[0]
        raise InputError(f"{checkpoint}: made by another version of the plugin: {why}") from None
    return Loaded(model.eval(), source, target, longest)


class _Uninitialised(TorchFunctionMode):
    """Leaves new weights as memory is, which takes no time: a checkpoint replaces them all."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in ("normal_", "uniform_", "xavier_uniform_"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def _built(
    cfg: Any, task: Mapping, source: Vocabulary, target: Vocabulary, elements: int
) -> EncoderDecoder:
    """Return a model with these settings and any weights.

    Raises InputError if it would be larger than so many elements can make it, words aside: broken
    settings must not fill the memory.
    """
    # Nothing is dropped outside of a training.
    settings = replace(model_settings(cfg), dropout=0.0, attention_dropout=0.0)
    for field in fields(settings):
        value, kind = getattr(settings, field.name), type(field.default)
        kinds = {float: (float, int), type(None): (int, kind)}.get(kind, (kind,))
        if not isinstance(value, kinds):
            raise TypeError(f"{field.name} is {value!r:.40}")
    if settings.tie_embeddings == "all" and source.symbols != target.symbols:
        raise InputError(
            "its dictionaries differ, and one matrix embeds both (§3.4): give the "
            "data that it was trained with"
        )
    limits = {side: _positions(side, vars(cfg), task) for side in SIDES}
    needed = count_parameters(settings, 0, 0, max(limits.values()))
    if needed > elements:
        raise InputError(
            f"the checkpoint holds another architecture: its settings need {needed:,} "
            f"weights besides the words, and it has {elements:,}"
        )
    of_source, of_target = embeddings(settings, len(source), len(target), source.pad)
    encoder = Encoder(settings, of_source, limits["source"])
    decoder = Decoder(settings, of_target, limits["target"])
    model = EncoderDecoder(encoder, decoder)
    model.register_buffer(BUFFER, settings_without_shape(settings))
    return model


def _positions(side: str, *settings: Mapping[str, Any]) -> int:
    """Return how many positions the first settings that say it give a side."""
    name = f"max_{side}_positions"
    return int(next(filter(None, (some.get(name) for some in settings)), POSITIONS))
