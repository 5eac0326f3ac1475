"""torch.save files, read without torch.load."""

import struct
from argparse import Namespace
from collections import OrderedDict

import numpy as np
import pytest
import torch
from hostile import PAYLOADS, Calls, rewritten

from aiayn_plugin.checkpoints.torch_file import DTYPES, NUMPY_CODES, FileError, read

FORMATS = pytest.mark.parametrize("archive", [True, False], ids=["archive", "before 1.6"])


@FORMATS
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_tensors_equal_torchs(archive, dtype, tmp_path):
    matrix = torch.arange(12).reshape(3, 4).to(dtype)
    tensors = {
        "matrix": matrix,
        "transposed": matrix.t(),
        "slice": matrix[1:, ::2],
        "tied": matrix,
        "parameter": torch.nn.Parameter(matrix, requires_grad=False),
        "scalar": matrix[2, 3].clone(),
        "empty": torch.empty(0, 3, dtype=dtype),
    }
    torch.save(tensors, tmp_path / "a.pt", _use_new_zipfile_serialization=archive)
    loaded = read(tmp_path / "a.pt")
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert loaded[name].dtype == dtype and torch.equal(loaded[name], tensor), name
    assert loaded["tied"].data_ptr() == loaded["matrix"].data_ptr()


@FORMATS
def test_plain_values_become_python_objects(archive, tmp_path):
    value = {
        "text": ["", "ä", "x" * 300],
        "numbers": (0, -1, 255, 65536, 2**40, -(2**70), 1.5, float("inf"), True, False, None),
        "bytes": b"\0\xff",
        "tuples": ((), (1,), (1, 2), (1, 2, 3), tuple(range(9))),
        "lists": [[], [1], {}, {1: {2: 3}}],
        "settings": Namespace(arch="x", layers=[1]),
        "ordered": OrderedDict(b=1, a=2),
    }
    torch.save(value, tmp_path / "a.pt", _use_new_zipfile_serialization=archive)
    assert read(tmp_path / "a.pt") == value
    weights = torch.nn.Linear(2, 2).state_dict()
    torch.save(weights, tmp_path / "a.pt")
    assert read(tmp_path / "a.pt")._metadata == weights._metadata


@pytest.mark.parametrize("code", sorted(NUMPY_CODES))
def test_each_numeric_type_of_numpy_is_restored(code, tmp_path):
    values = np.arange(6).reshape(2, 3).astype(code)
    stored = {
        "array": values,
        "columns": np.asfortranarray(values),
        "one": values[0, 1],
    }
    torch.save([(1, stored), values], tmp_path / "a.pt")
    (_, loaded), array = read(tmp_path / "a.pt")
    assert np.array_equal(array, values)
    for name, value in stored.items():
        assert type(loaded[name]) is type(value)
        assert loaded[name].dtype == value.dtype
        assert np.array_equal(loaded[name], value)


@pytest.mark.parametrize("code", ["O", "V8", "S3", "U3", "M8[s]", "f8,f8", "c16"])
def test_other_types_of_numpy_are_refused(code, tmp_path):
    torch.save(np.zeros(2, code), tmp_path / "a.pt")
    with pytest.raises(FileError, match="is not numeric"):
        read(tmp_path / "a.pt")


@pytest.mark.parametrize("shape, data", [((10**9,), b"12345678"), ((1,), b"1234567")])
def test_an_array_that_does_not_fit_its_bytes_is_refused(shape, data, tmp_path):
    core = getattr(np, "_core", None) or np.core

    class Broken(Calls):
        def __reduce__(self):
            state = 1, shape, np.dtype("i8"), False, data
            return core.multiarray._reconstruct, (np.ndarray, (0,), b"b"), state

    torch.save(Broken(print), tmp_path / "a.pt")
    with pytest.raises(FileError, match="damaged"):
        read(tmp_path / "a.pt")


@pytest.mark.parametrize(
    "payload, message",
    [
        ("weight of a gigabyte in one number", "a tensor that is larger than its data"),
        ("weight with less data than it states", "claims more data than it holds"),
        ("compressed archive", "it is compressed"),
        ("two directories", "its central directory is misplaced"),
        ("directory of two sizes", "has too many records"),
        ("pickle with views of replaced data", "a ndarray where torch.save writes something else"),
        ("pickle with keys of equal hashes", "a huge number as a key"),
        ("pickle with many numbers as keys", "too many numbers as keys"),
        ("pickle with settings of shared tuples", "a list where torch.save writes something else"),
        ("versions of modules as a number", "an? int where torch.save writes something else"),
        ("sparse weight", "would run torch._utils._rebuild_sparse_tensor"),
    ],
)
def test_forged_torch_files_are_refused(payload, message, tmp_path):
    state = {"model": OrderedDict(w=torch.ones(1000))}
    PAYLOADS[payload](tmp_path / "a.pt", state, tmp_path / "mark")
    with pytest.raises(FileError, match=message):
        read(tmp_path / "a.pt")


def test_big_endian_numbers_are_refused(tmp_path):
    path, state = tmp_path / "a.pt", {"w": torch.ones(3)}
    change = rewritten(lambda name, data: b"big" if name.endswith("/byteorder") else data)
    change(path, state, tmp_path / "mark")
    with pytest.raises(FileError, match="its numbers are big-endian"):
        read(path)
    torch.save(np.ones(3, ">f4"), path)
    with pytest.raises(FileError, match="its numbers are big-endian"):
        read(path)
    torch.save(state, path, _use_new_zipfile_serialization=False)
    true, false = (b"little_endianq\2" + opcode for opcode in (b"\x88", b"\x89"))
    path.write_bytes(path.read_bytes().replace(true, false))
    with pytest.raises(FileError, match="its numbers are big-endian"):
        read(path)


def test_a_record_with_two_sizes_is_refused(tmp_path):
    """Many small records, each extending to the end of the file, would take hours to read."""
    torch.save({"w": torch.ones(1000)}, tmp_path / "a.pt")
    data = bytearray((tmp_path / "a.pt").read_bytes())
    entry = data.rindex(b"PK\1\2", 0, data.rindex(b"/data/0"))  # in the directory
    struct.pack_into("<L", data, entry + 20, 4200)  # the compressed size
    (tmp_path / "a.pt").write_bytes(data)
    with pytest.raises(FileError, match="claims more data than it holds"):
        read(tmp_path / "a.pt")


def test_views_of_the_same_data_are_counted(tmp_path):
    """A thousand views of one tensor would become a thousand tensors when they are averaged."""
    data = torch.ones(100_000)
    torch.save([data[i:] for i in range(3)], tmp_path / "a.pt")
    assert len(read(tmp_path / "a.pt")) == 3
    torch.save([data[i:] for i in range(1000)], tmp_path / "a.pt")
    with pytest.raises(FileError, match="larger than their data"):
        read(tmp_path / "a.pt")


def test_without_data_the_shapes_remain(tmp_path):
    torch.save({"w": torch.ones(2, 3).half()}, tmp_path / "a.pt")
    weight = read(tmp_path / "a.pt", with_data=False)["w"]
    assert (weight.device.type, weight.shape, weight.dtype) == ("meta", (2, 3), torch.float16)
