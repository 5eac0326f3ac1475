"""What tells a checkpoint of one model from a model of other settings, in one line."""

import torch
from torch import Tensor

from ..errors import InputError
from ..paper import POSITIONS, ModelSettings

#: Settings that change what a model computes and the shape of no weight. A model keeps them as
#: numbers, in a buffer that its checkpoints hold under this name.
WITHOUT_SHAPE = ("h", "neighbourhood", "positions")
BUFFER = "settings_without_shape"
#: The buffer's name in checkpoints of version 0.1.0.
OLD_BUFFER = "shapeless"
ADVICE = "give the --arch and the options that it was trained with, or another --save-dir"


def settings_without_shape(settings: ModelSettings) -> Tensor:
    """Return the buffer: h 8, no neighbourhood and sinusoids are [8, 0, 0]."""
    numbers = settings.h, settings.neighbourhood or 0, POSITIONS.index(str(settings.positions))
    return torch.tensor(numbers, device="cpu")


def matching(checkpoint: dict[str, Tensor], model: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return a checkpoint's weights under today's names; older ones lack the buffer, or name it so.

    model: the state of the model that will load them. Raises InputError if they are another's.
    """
    weights = {BUFFER if name == OLD_BUFFER else name: w for name, w in checkpoint.items()}
    weights = {BUFFER: model[BUFFER], **weights}
    for name in sorted(weights.keys() | model.keys()):
        _compare_shapes(name, weights.get(name), model.get(name))
    for name, *numbers in zip(WITHOUT_SHAPE, weights[BUFFER], model[BUFFER], strict=True):
        if numbers[0] != numbers[1]:
            theirs, ours = (POSITIONS[int(n)] if name == "positions" else int(n) or None
                            for n in numbers)
            raise _another(name, theirs, ours)
    return weights


def _compare_shapes(name: str, theirs: Tensor | None, ours: Tensor | None) -> None:
    """Raise InputError unless a weight of the checkpoint and of the model have the same shape."""
    if theirs is None or ours is None:
        shapes = (tuple(w.shape) if w is not None else "missing" for w in (theirs, ours))
        raise _another(name, *shapes)
    if theirs.shape == ours.shape:
        return
    words = name.endswith(("embedding.weight", "vocabulary.weight"))
    if words and theirs.shape[1:] == ours.shape[1:]:
        raise InputError(
            f"the checkpoint has a dictionary of {len(theirs)} entries, the data one of "
            f"{len(ours)}: give the data that it was trained with, or prepare the data with that "
            "dictionary"
        )
    raise _another(name, tuple(theirs.shape), tuple(ours.shape))


def _another(name: str, theirs: object, ours: object) -> InputError:
    return InputError(f"the checkpoint holds another architecture: {name} is {theirs} in it and "
                      f"{ours} here; {ADVICE}")
