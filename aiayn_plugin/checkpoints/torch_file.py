"""torch.save files, read without torch.load.

torch's reader (2.14), even with weights_only, crashes on deeply nested tuples as a dictionary key,
takes quadratic time for keys of equal hashes, and builds tensors far larger than their file. This
reader interprets only the opcodes that torch.save writes by default (protocol 2), builds only the
types that fairseq stores, and allocates no more than the size of the file.
"""

import math
import operator
import pickletools
import struct
import sys
import zipfile
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

#: Types of the keys of dictionaries.
KEYS = (str, int, float, type(None))
DTYPES = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
#: Codes of the numpy types that fairseq stores.
NUMPY_CODES = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"}
#: Opcodes of all pickles in a file: 20 times those of the paper's models, and seconds to interpret.
MAX_OPCODES = 1_000_000
#: Numeric keys of dictionaries; the optimizer's state has one for each weight. A file chooses their
#: hashes, so the time to insert n of them may grow as n².
MAX_NUMERIC_KEYS = 20_000
#: Bytes of a central directory.
MAX_DIRECTORY = 16 << 20
#: Dimensions of a tensor.
MAX_DIMENSIONS = 8
#: How much larger than the file its tensors may be.
MAX_SHARING = 8
#: The first two pickles of a pre-1.6 torch file.
LEGACY_MAGIC, LEGACY_PROTOCOL = 0x1950A86A20F9469CFC6C, 1001


class FileError(Exception):
    """The file is malformed or holds more than plain data; the message says how."""


def read(path: Path, with_data: bool = True) -> Any:
    """Return the object in a torch.save file, its tensors on the CPU.

    with_data: False leaves the data in the file and returns tensors on the meta device; pre-1.6
    torch files are always read completely. Raises FileError, and OSError if the file cannot be
    read.
    """
    with open(path, "rb") as file:
        is_archive = file.read(4) == b"PK\3\4"
        file.seek(0)
        budget = _Budget(path.stat().st_size)
        try:
            return (
                _read_archive(file, budget, with_data) if is_archive else _read_legacy(file, budget)
            )
        except (FileError, OSError):
            raise
        except MemoryError:
            raise FileError("it does not fit into memory") from None
        except Exception as error:  # a malformed file may raise any of them
            first_line = str(error).partition("\n")[0]
            raise FileError(
                f"it is damaged, or not a torch.save file ({type(error).__name__}: "
                f"{ascii(first_line)[1:-1]:.200})"
            ) from None


class _Budget:
    """Limits on the memory and time to read a file: its own size, opcodes, numeric keys.

    All tensors together may be larger than the file, because tied weights share their data.
    """

    def __init__(self, size: int) -> None:
        self.left = size
        self.left_for_tensors = MAX_SHARING * size
        self.opcodes_left = MAX_OPCODES
        self.numeric_keys_left = MAX_NUMERIC_KEYS

    def spend(self, size: int) -> int:
        """Return the size. Raises FileError if it exceeds what is left."""
        if not 0 <= size <= self.left:
            raise FileError("it claims more data than it holds")
        self.left -= size
        return size

    def check_keys(self, keys: list[Any]) -> None:
        """Raise FileError for keys whose hashes may take forever to compute or to tell apart."""
        for key in keys:
            if isinstance(_expect(KEYS, key), int) and abs(key) >= sys.hash_info.modulus:
                raise FileError("it has a huge number as a key")
            self.numeric_keys_left -= not isinstance(key, str)
        if self.numeric_keys_left < 0:
            raise FileError("it has too many numbers as keys")

    def share(self, tensor: Tensor) -> Tensor:
        """Return the tensor. Raises FileError if the tensors are too large for the file."""
        self.left_for_tensors -= tensor.nbytes + 256  # the tensor object takes memory too
        if self.left_for_tensors < 0:
            raise FileError("its tensors are larger than their data")
        return tensor


def _read_archive(file: BufferedReader, budget: _Budget, with_data: bool) -> Any:
    """Read a zip archive of data.pkl and a record for each storage. zipfile verifies their CRC."""
    _check_directory(file)
    with zipfile.ZipFile(file) as archive:
        records = {record.filename: record for record in archive.infolist()}
        if any(record.compress_type != zipfile.ZIP_STORED for record in records.values()):
            raise FileError("it is compressed")  # torch never does that: it may be a zip bomb
        if min(record.header_offset for record in records.values()) != 0:
            # zipfile finds the directory by its size, and then shifts all offsets, even below 0
            raise FileError("its central directory is misplaced")
        (pickled,) = (record for name, record in records.items() if name.endswith("/data.pkl"))
        folder = pickled.filename.removesuffix("data.pkl")
        byte_order = records.get(f"{folder}byteorder")
        if byte_order and archive.read(byte_order) != b"little":
            raise FileError("its numbers are big-endian")

        def read_storage(key: str, size: int) -> Tensor:
            record = records[f"{folder}data/{key}"]
            # Before Python 3.11.8 and 3.12.2, zipfile accepts overlapping records, and reads a
            # record's compressed size, which may reach to the end of the file.
            if not record.compress_size == record.file_size == size:
                raise FileError("it claims more data than it holds")
            if not with_data:
                return torch.empty(size, dtype=torch.uint8, device="meta")
            budget.spend(size)
            return _from_bytes(bytearray(archive.read(record)))

        return _unpickle(archive.read(pickled), budget, read_storage)


def _check_directory(file: BufferedReader) -> None:
    """Raise FileError for a truncated archive, or too large a central directory."""
    size = file.seek(0, 2)
    file.seek(max(0, size - 98))
    end = file.read()  # the end record of 22 bytes, after those of zip64 for more than 4 GiB
    if end[-22:-18] != b"PK\5\6" or end[-2:] != b"\0\0":
        raise FileError("it is truncated")
    (directory,) = struct.unpack("<L", end[-10:-6])
    if end[-42:-38] == b"PK\6\7":  # zipfile then trusts the zip64 record, if it is in its place
        (directory,) = struct.unpack("<Q", end[-58:-50])
        (place,) = struct.unpack("<Q", end[-34:-26])
        if end[-98:-94] != b"PK\6\6" or place != size - 98:
            raise FileError("its central directory is misplaced")
    if directory > MAX_DIRECTORY:
        raise FileError("it has too many records")


def _read_legacy(file: BufferedReader, budget: _Budget) -> Any:
    """Read pickles of a header, the value and the keys of the storages, then their data."""
    storages: dict[str, bytearray] = {}

    def new_storage(key: str, size: int) -> Tensor:
        storages[key] = bytearray(budget.spend(size))
        return _from_bytes(storages[key])

    def unpickle() -> Any:
        return _unpickle(file, budget, new_storage)

    if (unpickle(), unpickle()) != (LEGACY_MAGIC, LEGACY_PROTOCOL):
        raise FileError("it is not a torch.save file")
    system, value, keys = unpickle(), unpickle(), unpickle()
    if not system["little_endian"]:
        raise FileError("its numbers are big-endian")
    if storages.keys() != {_expect(str, key) for key in keys}:
        raise FileError("its storages do not match their list")
    for key in keys:
        file.seek(8, 1)  # the number of elements
        if file.readinto(storages[key]) != len(storages[key]):
            raise FileError("it is truncated")
    return value


def _from_bytes(data: bytearray) -> Tensor:
    """Return a tensor that shares the memory."""
    return torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


# ---- Pickles


def _unpickle(
    pickled: bytes | BufferedReader, budget: _Budget, read_storage: Callable[[str, int], Tensor]
) -> Any:
    """Return the value of a pickle: lists, tuples, dictionaries, plain values and tensors.

    pickled: a file is read up to the end of the pickle. read_storage: returns the bytes of a
    storage from its key and its size in bytes.
    """
    builders = _list_builders(budget)
    storages: dict[str, Tensor] = {}
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}

    def pop_items() -> list[Any]:
        start = marks.pop()
        items = stack[start:]
        del stack[start:]
        return items

    def get_storage(
        kind: str, dtype: torch.dtype, key: str, _: str, length: int, *view: None
    ) -> Tensor:
        if kind != "storage" or any(view):
            raise FileError("it holds references that torch.save no longer writes")
        if _expect(str, key) not in storages:
            storages[key] = read_storage(key, operator.index(length) * dtype.itemsize)
        return storages[key].view(dtype)

    argument: Any
    for opcode, argument, _ in pickletools.genops(pickled):
        budget.opcodes_left -= 1
        if budget.opcodes_left < 0:
            raise FileError("its pickles are too long")
        match opcode.name:
            case "PROTO":
                pass
            case "STOP":
                break
            case "MARK":
                marks.append(len(stack))
            case "NONE":
                stack.append(None)
            case "NEWTRUE" | "NEWFALSE":
                stack.append(opcode.name == "NEWTRUE")
            case "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINFLOAT" | "BINUNICODE":
                stack.append(argument)
            case "EMPTY_DICT":
                stack.append({})
            case "EMPTY_LIST":
                stack.append([])
            case "EMPTY_TUPLE":
                stack.append(())
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                start = len(stack) - int(opcode.name[-1])
                stack[start:] = [tuple(stack[start:])]
            case "TUPLE":
                stack.append(tuple(pop_items()))
            case "APPEND" | "APPENDS":
                items = [stack.pop()] if opcode.name == "APPEND" else pop_items()
                _expect(list, stack[-1]).extend(items)
            case "SETITEM" | "SETITEMS":
                items = [stack.pop(-2), stack.pop()] if opcode.name == "SETITEM" else pop_items()
                budget.check_keys(items[::2])
                _expect(dict, stack[-1]).update(zip(items[::2], items[1::2], strict=True))
            case "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "GLOBAL":
                module, name = argument.split(" ")
                if (builder := builders.get((module, name))) is None:
                    raise FileError(f"it would run {ascii(f'{module}.{name}')[1:-1]:.80}")
                stack.append(builder)
            case "REDUCE" | "NEWOBJ":
                arguments, builder = _expect(tuple, stack.pop()), stack.pop()
                budget.spend(len(arguments))
                stack.append(builder(*arguments))
            case "BUILD":
                state = stack.pop()
                budget.spend(len(state))
                _set_state(stack[-1], state, budget)
            case "BINPERSID":
                stack.append(get_storage(*stack.pop()))
            case _:
                raise FileError(f"it has the opcode {opcode.name}, which fairseq never writes")
    (value,) = stack
    return value


def _expect(kind: type | tuple[type, ...], value: Any) -> Any:
    """Return a value. Raises FileError if it has a different type."""
    if not isinstance(value, kind):
        raise FileError(f"it has a {type(value).__name__} where torch.save writes something else")
    return value


def _set_state(target: Any, state: Any, budget: _Budget) -> None:
    """Set the state of a new object, as its pickle specifies."""
    if isinstance(target, Namespace):
        target.__dict__ = _expect(dict, state)
    elif isinstance(target, OrderedDict):  # a state dict with the versions of its modules
        versions = _expect(dict, _expect(dict, state).get("_metadata", {}))
        vars(target)["_metadata"] = {name: _expect(dict, versions[name]) for name in versions}
    elif isinstance(target, np.dtype):
        # Never applied: a state can make numpy read numbers as addresses of objects.
        if state[1] == ">":
            raise FileError("its numbers are big-endian")
    elif isinstance(target, np.ndarray) and not target.size:  # views of old data would dangle
        version, shape, kind, is_fortran, data = state
        budget.spend(len(data))
        target.__setstate__((version, shape, _expect(np.dtype, kind), is_fortran, data))
    else:
        raise FileError(f"it sets the state of a {type(target).__name__}")


def _list_builders(budget: _Budget) -> dict[tuple[str, str], Any]:
    """Return what a pickle may refer to: functions to call, and types of storages."""

    def encode(text: str, encoding: str) -> bytes:  # how protocol 2 writes bytes
        return text.encode("latin-1")[: budget.spend(len(text))]

    def build_tensor(*arguments: Any) -> Tensor:
        return budget.share(_view_storage(*arguments))

    def build_dtype(code: str, *_: Any) -> np.dtype:
        if _expect(str, code) not in NUMPY_CODES:
            raise FileError(f"it holds numpy's type {ascii(code)[:20]}, which is not numeric")
        return np.dtype(code)

    def build_number(kind: np.dtype, data: bytes) -> np.generic:
        return np.frombuffer(data, _expect(np.dtype, kind), count=1)[0]

    builders: dict[tuple[str, str], Any] = {
        ("collections", "OrderedDict"): lambda: OrderedDict(),
        ("argparse", "Namespace"): lambda: Namespace(),
        ("torch", "Size"): lambda size: _expect(tuple, size)[:MAX_DIMENSIONS],
        ("torch._utils", "_rebuild_tensor_v2"): build_tensor,
        ("torch._utils", "_rebuild_parameter"): lambda data, *_: data,
        ("_codecs", "encode"): encode,
        ("numpy", "dtype"): build_dtype,
        ("numpy", "ndarray"): "numpy.ndarray",
    }
    for module in ("numpy.core.multiarray", "numpy._core.multiarray"):  # before numpy 2, and since
        builders[module, "scalar"] = build_number
        builders[module, "_reconstruct"] = lambda *_: np.zeros(0, np.uint8)
    for module in ("fairseq.meters", "fairseq.logging.meters"):  # in checkpoints before 0.10
        for name in ("AverageMeter", "TimeMeter", "StopwatchMeter"):
            builders[module, name] = lambda *_: Namespace()
    for module in ("torch", "torch.cuda"):
        builders |= {(module, name): dtype for name, dtype in DTYPES.items()}
    return builders


def _view_storage(storage: Tensor, offset: int, size: tuple, stride: tuple, *_: Any) -> Tensor:
    """Return a view of a storage. Raises FileError if it is larger."""
    if max(len(_expect(tuple, size)), len(stride)) > MAX_DIMENSIONS:
        raise FileError(f"it holds a tensor of more than {MAX_DIMENSIONS} dimensions")
    numbers = [operator.index(number) for number in (offset, *size, *stride)]
    end = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) + 1
    count = math.prod(size)
    if min(numbers) < 0 or count > storage.numel() or (count and end > storage.numel()):
        raise FileError("it holds a tensor that is larger than its data")
    return storage.as_strided(size, stride, offset)
