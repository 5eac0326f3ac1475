"""What tells a checkpoint of one model from a model of other settings, in one line."""

import torch
from torch import Tensor

from ..errors import InputError
from ..paper import POSITIONS, ModelSettings
from .files import BUFFER, todays_names

#: Settings that change what a model computes and the shape of no weight. A model keeps a number for
#: each in a buffer, which its checkpoints hold.
WITHOUT_SHAPE = ("h", "neighbourhood", "positions")
ADVICE = "give the --arch and the options that it was trained with, or another --save-dir"


def settings_without_shape(settings: ModelSettings) -> Tensor:
    """Return the buffer: h 8, no neighbourhood and sinusoids are [8, 0, 0]."""
    values = (getattr(settings, name) or 0 for name in WITHOUT_SHAPE)
    return torch.tensor([POSITIONS.index(value) if value in POSITIONS else value
                         for value in values], device="cpu")  # fmt: skip


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
    return POSITIONS[int(number)] if name == "positions" else int(number) or None


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
    return InputError(f"the checkpoint holds another architecture: {name} is {theirs} in it and "
                      f"{ours} here; {ADVICE}")
