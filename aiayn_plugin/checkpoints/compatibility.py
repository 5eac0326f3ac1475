"""Check that a checkpoint fits a model and its data: weight shapes, settings and dictionaries."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from torch import Tensor

from ..errors import InputError
from ..paper import ModelSettings
from ..text.dictionary import hash_words

#: Settings that change what a model computes but not the shape of any weight.
SETTINGS_WITHOUT_SHAPE = ("h", "neighbourhood", "positions")
SIDES = ("source", "target")
ADVICE = "give the --arch and options it was trained with, or a different --save-dir"


@dataclass(frozen=True)
class Identity:
    """What `task_state` records about a checkpoint; empty if fairseq's own task wrote it."""

    #: SHA-256 of the source and target words in the order of their token IDs.
    dictionaries: Mapping[str, str] = field(default_factory=dict)
    #: SETTINGS_WITHOUT_SHAPE of the model.
    settings: Mapping[str, int | str | None] = field(default_factory=dict)
    #: The source and target language.
    languages: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        words: Iterable[Iterable[str]],
        settings: ModelSettings | None = None,
        languages: Sequence[str] = (),
    ) -> "Identity":
        """Return the identity of a model with source and target words, in token ID order.

        settings: None for one of fairseq's models. languages: source and target, if known.
        """
        dictionaries = dict(zip(SIDES, map(hash_words, words), strict=True))
        without_shape = settings_without_shape(settings) if settings else {}
        return cls(dictionaries, without_shape, dict(zip(SIDES, languages, strict=False)))

    @classmethod
    def read(cls, task_state: Any) -> "Identity":
        """Return the identity in a task_state, or an empty one if there is none.

        Raises InputError if it is malformed.
        """
        task_state = {} if task_state is None else task_state
        if isinstance(task_state, Mapping):
            identity = cls(**{part.name: task_state.get(part.name, {}) for part in fields(cls)})
            if (
                _holds(identity.dictionaries, SIDES, str)
                and _holds(identity.settings, SETTINGS_WITHOUT_SHAPE, (int, str, type(None)))
                and _holds(identity.languages, SIDES, str)
            ):
                return identity
        raise InputError("the checkpoint is damaged (invalid task_state): use an intact copy")

    def task_state(self) -> dict[str, Any]:
        """Return the non-empty parts, as a checkpoint's task_state stores them."""
        return {name: part for name, part in asdict(self).items() if part}

    def check_settings(self, model: "Identity") -> None:
        """Raise InputError if both record settings of the model, and they differ."""
        for name in self.settings.keys() & model.settings.keys():
            if self.settings[name] != model.settings[name]:
                raise _architecture_error(name, self.settings[name], model.settings[name])

    def check_dictionaries(self, model: "Identity", data: object, names: Sequence[str]) -> None:
        """Raise InputError if dictionaries or direction differ from those of the training data.

        names: the source and target dictionary files in `data`. What the checkpoint does not
        record is not compared. Two languages may share a dictionary, so token IDs do not reveal
        the direction.
        """
        direction = [self.languages.get(side) for side in SIDES]
        if model.languages and direction == [model.languages[side] for side in reversed(SIDES)]:
            raise InputError(
                f"{data} is for the direction {direction[1]} to {direction[0]}, but the checkpoint "
                f"was trained from {direction[0]} to {direction[1]}: give fairseq's commands "
                f"--source-lang {direction[0]} --target-lang {direction[1]}; for aiayn's, prepare "
                f"the same text with -s {direction[0]} -t {direction[1]}, which gives the same "
                "token IDs; a new run needs a different --save-dir"
            )
        for side, name in zip(SIDES, names, strict=True):
            theirs, ours = self.dictionaries.get(side), model.dictionaries[side]
            if theirs not in (None, ours):
                raise InputError(
                    f"{data}/{name} (SHA-256 of its words {ours[:12]}…) does not match the "
                    f"{side} dictionary of the checkpoint ({theirs[:12]}…): token IDs differ. Use "
                    "the data the model was trained with, or prepare yours with its dictionary; a "
                    "new run needs a different --save-dir"
                )


def _holds(part: Any, names: Sequence[str], kinds: Any) -> bool:
    """Return whether a part of task_state has only known names; older checkpoints lack some."""
    return (
        isinstance(part, Mapping)
        and part.keys() <= {*names}
        and all(isinstance(value, kinds) for value in part.values())
    )


def settings_without_shape(settings: ModelSettings) -> dict[str, int | str | None]:
    """Return the settings that no weight's shape reveals."""
    return {name: getattr(settings, name) for name in SETTINGS_WITHOUT_SHAPE}


def find_differing_shape(
    first: Mapping[str, Tensor], second: Mapping[str, Tensor]
) -> tuple[str, tuple[int, ...] | None, tuple[int, ...] | None] | None:
    """Return the first weight whose shapes in two state dicts differ, and the shapes.

    A shape is None where the weight is missing. Return None if all shapes are equal.
    """
    for name in sorted(first.keys() | second.keys()):
        shapes = [tuple(state[name].shape) if name in state else None for state in (first, second)]
        if shapes[0] != shapes[1]:
            return name, shapes[0], shapes[1]
    return None


def check_shapes(checkpoint: Mapping[str, Tensor], model: Mapping[str, Tensor]) -> None:
    """Raise InputError unless a checkpoint's weights have the names and shapes of the model's.

    model: its state_dict(keep_vars=True). Weights that share one parameter in the model must also
    be equal in the checkpoint.
    """
    if (difference := find_differing_shape(checkpoint, model)) is None:
        _check_shared(checkpoint, model)
        return
    name, theirs, ours = difference
    if any("embed_tokens" in name for name in checkpoint):
        raise InputError(
            "the checkpoint holds fairseq's Transformer: convert it with aiayn convert, or give "
            "--arch transformer"
        )
    is_vocabulary = name.endswith(("embedding.weight", "vocabulary.weight"))
    if is_vocabulary and theirs and ours and theirs[1:] == ours[1:]:
        raise InputError(
            f"the checkpoint's dictionary has {theirs[0]} entries, the data's has {ours[0]}. "
            "Use the data the model was trained with, or prepare yours with its dictionary"
        )
    raise _architecture_error(name, theirs or "missing", ours or "missing")


def _check_shared(checkpoint: Mapping[str, Tensor], model: Mapping[str, Tensor]) -> None:
    first_names: dict[Tensor, str] = {}  # a tensor is hashed by its identity
    for name, weight in model.items():
        first = first_names.setdefault(weight, name)
        if first != name and not checkpoint[first].equal(checkpoint[name]):
            raise InputError(
                f"the checkpoint has a different architecture: {first} and {name} differ, but this "
                f"model ties them (--tie-embeddings); {ADVICE}"
            )


def _architecture_error(name: str, theirs: object, ours: object) -> InputError:
    return InputError(
        f"the checkpoint has a different architecture: {name} is {theirs}, not {ours}; {ADVICE}"
    )
