"""What tells a checkpoint of one model from a model of other settings or words, in one line."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..paper import POSITION_KINDS, ModelSettings
from .safe_load import BUFFER, todays_names

#: Settings that change what a model computes and the shape of no weight. A model keeps a number for
#: each in a buffer, which its checkpoints hold.
WITHOUT_SHAPE = ("h", "neighbourhood", "positions")
SIDES = ("source", "target")
ADVICE = "give the --arch and the options that it was trained with, or another --save-dir"


def settings_without_shape(settings: ModelSettings) -> Tensor:
    """Return the buffer: h 8, no neighbourhood and sinusoids are [8, 0, 0]."""
    values = (getattr(settings, name) or 0 for name in WITHOUT_SHAPE)
    return torch.tensor(
        [POSITION_KINDS.index(value) if value in POSITION_KINDS else value for value in values],
        device="cpu",
    )


def matching(checkpoint: dict[str, Tensor], model: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return a checkpoint's weights as the model with the state `model` loads them.

    An older checkpoint may lack the buffer. Raises InputError if the weights are another model's.
    """
    weights = {BUFFER: model[BUFFER], **todays_names(checkpoint)}
    for name in sorted(weights.keys() | model.keys()):
        _compare_shapes(name, weights.get(name), model.get(name))
    for name, theirs, ours in zip(WITHOUT_SHAPE, weights[BUFFER], model[BUFFER], strict=True):
        if theirs != ours:
            raise _another(name, _setting(name, theirs), _setting(name, ours))
    return weights


def _setting(name: str, number: Tensor) -> object:
    """Return the setting that a number of the buffer stands for."""
    return POSITION_KINDS[int(number)] if name == "positions" else int(number) or None


def _compare_shapes(name: str, theirs: Tensor | None, ours: Tensor | None) -> None:
    """Raise InputError unless a weight of the checkpoint and of the model have the same shape."""
    if theirs is None or ours is None:
        shapes = (tuple(w.shape) if w is not None else "missing" for w in (theirs, ours))
        raise _another(name, *shapes)
    if theirs.shape == ours.shape:
        return
    is_vocabulary = name.endswith(("embedding.weight", "vocabulary.weight"))
    if is_vocabulary and theirs.shape[1:] == ours.shape[1:]:
        raise InputError(
            f"the checkpoint has a dictionary of {len(theirs)} entries, the data one of "
            f"{len(ours)}: give the data that it was trained with, or prepare the data with that "
            "dictionary"
        )
    raise _another(name, tuple(theirs.shape), tuple(ours.shape))


def _another(name: str, theirs: object, ours: object) -> InputError:
    return InputError(
        f"the checkpoint holds another architecture: {name} is {theirs} in it and "
        f"{ours} here; {ADVICE}"
    )


def dictionaries_of(task_state: Any) -> dict[str, str]:
    """Return the checksums of source and target words in a checkpoint's task_state.

    Older checkpoints have none. Raises InputError if they are broken.
    """
    checksums = task_state.get("dictionaries", {}) if isinstance(task_state, Mapping) else None
    if checksums and not (
        isinstance(checksums, Mapping)
        and checksums.keys() == {*SIDES}
        and all(isinstance(sha256, str) for sha256 in checksums.values())
    ):
        checksums = None
    if checksums is None:
        raise InputError("the checkpoint is broken: its task_state is not what the plugin stores")
    return dict(checksums)


def check_dictionaries(
    theirs: Mapping[str, str], ours: Mapping[str, str], data: object, names: Sequence[str]
) -> None:
    """Raise InputError if a checkpoint was trained with other dictionaries than those in data.

    theirs, ours: as dictionaries_of returns them. names: of the two files in data.
    """
    for side, name in zip(SIDES, names, strict=True):
        if theirs and theirs[side] != ours[side]:
            raise InputError(
                f"the checkpoint was trained with another {side} dictionary (words of SHA-256 "
                f"{theirs[side][:12]}…) than {data}/{name} ({ours[side][:12]}…), so the same "
                "numbers are other words: give the data that it was trained with, or prepare the "
                "data with that dictionary"
            )
