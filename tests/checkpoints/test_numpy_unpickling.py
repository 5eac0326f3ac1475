"""numpy's numbers in a checkpoint."""

import pickle

import numpy as np
import pytest
import torch
from hostile import Calls

from aiayn_plugin.checkpoints.numpy_unpickling import CODES, NumberType
from aiayn_plugin.checkpoints.safe_load import load
from aiayn_plugin.errors import InputError


@pytest.mark.parametrize("code", sorted(CODES))
def test_each_numeric_type_is_restored(code, tmp_path):
    values = np.arange(6).reshape(2, 3).astype(code)
    stored = {
        "array": values,
        "big": values.astype(values.dtype.newbyteorder(">")),
        "columns": np.asfortranarray(values),
        "one": values[0, 1],
    }
    torch.save({"model": {}, "numbers": [(1, stored), values]}, tmp_path / "a.pt")
    (_, loaded), array = load(tmp_path / "a.pt")["numbers"]
    assert np.array_equal(array, values)
    for name, value in stored.items():
        assert type(loaded[name]) is type(value) and loaded[name].dtype == value.dtype
        assert np.array_equal(loaded[name], value)


@pytest.mark.parametrize("code", ["O", "O8", "V8", "S3", "U3", "M8[s]", "f8,f8", "c16"])
def test_other_types_are_refused(code):
    with pytest.raises(pickle.UnpicklingError, match="is not numeric"):
        NumberType(code)


@pytest.mark.parametrize("shape, data", [((10**9,), b"12345678"), ((1,), b"1234567")])
def test_a_shape_that_does_not_fit_its_bytes_is_refused(shape, data, tmp_path):
    core = getattr(np, "_core", None) or np.core

    class Broken(Calls):
        def __reduce__(self):
            state = 1, shape, np.dtype("i8"), False, data
            return core.multiarray._reconstruct, (np.ndarray, (0,), b"b"), state

    torch.save({"model": {}, "numbers": Broken(print)}, tmp_path / "a.pt")
    with pytest.raises(InputError, match="broken one"):
        load(tmp_path / "a.pt")
