"""numpy's numbers in a checkpoint, read without numpy's own unpickling.

fairseq stores some after --eval-bleu. numpy trusts what it unpickles: a dtype in the
file may make numpy treat its bytes as object pointers. So each number is recreated from its bytes,
with a known numeric type.
"""

from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch

#: Codes of the numeric types that fairseq stores.
CODES = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"}


class NumberType:
    """Replaces numpy.dtype in a file."""

    def __init__(self, code: str, *unused: Any) -> None:
        if code not in CODES:
            raise UnpicklingError(f"numpy's type {code!r} is not numeric")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple) -> None:
        """Restore the byte order, and ignore all else that numpy would restore."""
        self.dtype = self.dtype.newbyteorder(state[1])


class Array:
    """Replaces numpy.ndarray in a file."""

    def __init__(self, *unused: Any) -> None:
        self.value = np.zeros(0)

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, fortran, data = state
        values = np.frombuffer(data, kind.dtype)
        self.value = values.reshape(shape, order="F" if fortran else "C").copy()


def empty_array(*unused: Any) -> Array:
    """Replace numpy's _reconstruct, which creates an array that __setstate__ fills."""
    return Array()


def scalar(kind: NumberType, data: bytes) -> np.generic:
    """Return a numpy scalar."""
    return np.frombuffer(data, kind.dtype, count=1)[0]


#: The replacements and the names that files use. The module was `core` before numpy 2.
GLOBALS: list[Any] = [(NumberType, "numpy.dtype"), (Array, "numpy.ndarray")] + [
    (function, f"numpy.{core}.multiarray.{name}")
    for core in ("core", "_core")
    for name, function in (("scalar", scalar), ("_reconstruct", empty_array))
]


def with_arrays(value: Any, done: dict[int, Any] | None = None) -> Any:
    """Return a file's content with each Array replaced by its numpy array.

    Lists and dictionaries are changed in place. done: the results so far, by id.
    """
    done = {} if done is None else done
    if isinstance(value, Array):
        return value.value
    if not isinstance(value, (dict, list, tuple)) or isinstance(value, torch.Size):
        return value
    if id(value) not in done:
        done[id(value)] = value
        if isinstance(value, tuple):
            done[id(value)] = tuple(with_arrays(item, done) for item in value)
        else:
            for key in list(value) if isinstance(value, dict) else range(len(value)):
                value[key] = with_arrays(value[key], done)
    return done[id(value)]
