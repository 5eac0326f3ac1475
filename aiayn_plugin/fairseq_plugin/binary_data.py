"""fairseq's binary sentences: a .bin holds their tokens, an .idx their sizes and offsets.

fairseq does not check these files: a .bin of zeros is read as sentences of <s>, and a token that is
not in the dictionary ends training hours later. So each pair is checked when it is loaded.
"""

import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
from fairseq.data.indexed_dataset import IndexedDataset, MMapIndexedDataset, _code_to_dtype

from ..errors import InputError

ADVICE = "copy both files again, or prepare the data again"
#: Headers of an .idx: --dataset-impl mmap; cached and lazy.
_MMAP_HEADER = struct.Struct("<9sQBQ")  # magic, version, token type, sentences
#: magic, version, token type, bytes per token, sentences, dimensions
_CACHED_HEADER = struct.Struct("<8sQQQQQ")
_MMAP_MAGIC = MMapIndexedDataset.Index._HDR_MAGIC
_CACHED_MAGIC = IndexedDataset._HDR_MAGIC


class Index(NamedTuple):
    """The content of an .idx."""

    dtype: np.dtype
    sizes: np.ndarray  # tokens in each sentence
    offsets: np.ndarray  # where each sentence starts
    offset_step: int  # increase of the offset per token: its bytes (mmap), or 1
    first_token: int  # the number in the .bin that stands for token ID 0


def check_sentences(prefix: str, vocabulary: int, eos: int, chunk_size: int = 1 << 18) -> int:
    """Return the number of sentences in prefix.idx and prefix.bin.

    vocabulary: entries of the dictionary. eos: the token that ends each sentence. Raises InputError
    if a file is missing or broken, or if the files do not match each other or the dictionary. Reads
    the .bin once, chunk_size sentences at a time.
    """
    idx, bin = Path(f"{prefix}.idx"), Path(f"{prefix}.bin")
    for path, counterpart in ((idx, bin), (bin, idx)):
        if not path.is_file():
            raise InputError(f"{path} is missing, but {counterpart.name} exists: {ADVICE}")
    try:
        dtype, sizes, offsets, offset_step, first_token = _read_index(idx)
        ends = np.cumsum(sizes, dtype=np.int64)
        if (invalid := (sizes < 1) | ((ends - sizes) * offset_step != offsets)).any():
            raise InputError(
                f"{idx} is broken: the size or offset of sentence {np.argmax(invalid) + 1} is "
                f"invalid; {ADVICE}"
            )
        if (size := bin.stat().st_size) != ends[-1] * dtype.itemsize:
            raise InputError(
                f"{bin} has {size:,} bytes, but its .idx lists {ends[-1]:,} tokens of "
                f"{dtype.itemsize} bytes: the files do not match, or one is truncated; {ADVICE}"
            )
        tokens = np.memmap(bin, dtype, "r")
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}") from None
    for first in range(0, len(sizes), chunk_size):
        chunk_ends = ends[first : first + chunk_size]
        chunk_start = chunk_ends[0] - sizes[first]
        chunk = tokens[chunk_start : chunk_ends[-1]]
        unknown = (chunk < first_token) | (chunk >= first_token + vocabulary)
        unfinished = tokens[chunk_ends - 1] != first_token + eos
        if unknown.any():
            position = np.argmax(unknown)
            sentence = np.searchsorted(chunk_ends, chunk_start + position, "right")
            problem = (
                f"has the token ID {int(chunk[position]) - first_token}, but the dictionary has "
                f"{vocabulary:,} entries"
            )
        elif unfinished.any():
            sentence, problem = np.argmax(unfinished), "does not end with the end symbol"
        else:
            continue
        raise InputError(
            f"{bin}: sentence {first + sentence + 1} {problem}: the file is broken or was made "
            f"with a different dictionary; {ADVICE}"
        )
    return len(sizes)


def _read_index(path: Path) -> Index:
    """Return the content of an .idx. Raises InputError if it is broken, OSError if unreadable."""
    with open(path, "rb") as file:
        header = file.read(_CACHED_HEADER.size)
    is_mmap = header.startswith(_MMAP_MAGIC) and len(header) >= _MMAP_HEADER.size
    if is_mmap:
        _, version, code, sentences = _MMAP_HEADER.unpack_from(header)
        expected_size = _MMAP_HEADER.size + 12 * sentences
    elif header.startswith(_CACHED_MAGIC) and len(header) == _CACHED_HEADER.size:
        _, version, code, token_bytes, sentences, dimensions = _CACHED_HEADER.unpack(header)
        expected_size = _CACHED_HEADER.size + 8 * (2 * (sentences + 1) + dimensions)
    else:
        raise InputError(f"{path} is not a fairseq index: {ADVICE}")
    dtype = np.dtype(_code_to_dtype.get(code, object))
    if version != 1 or dtype.kind not in "iu":
        raise InputError(
            f"{path} is broken: its header has version {version} and token type {code}; {ADVICE}"
        )
    if (size := path.stat().st_size) != expected_size:
        raise InputError(
            f"{path} is broken: it has {size:,} bytes instead of {expected_size:,} for the "
            f"{sentences:,} sentences of its header; {ADVICE}"
        )
    if not sentences:
        raise InputError(f"{path} holds no sentences: {ADVICE}")
    if is_mmap:
        sizes = np.memmap(path, np.int32, "r", _MMAP_HEADER.size, sentences)
        offsets = np.memmap(path, np.int64, "r", _MMAP_HEADER.size + sizes.nbytes, sentences)
        return Index(dtype, sizes, offsets, offset_step=dtype.itemsize, first_token=0)
    start, entries = _CACHED_HEADER.size, sentences + 1
    dim_offsets = np.memmap(path, np.int64, "r", start, entries)
    data_offsets = np.memmap(path, np.int64, "r", start + dim_offsets.nbytes, entries)
    if dimensions != sentences or (dim_offsets != np.arange(entries)).any():
        raise InputError(f"{path} is broken or holds tables instead of sentences: {ADVICE}")
    sizes = np.memmap(path, np.int64, "r", start + 16 * entries, sentences)
    if token_bytes != dtype.itemsize or data_offsets[-1] != sizes.sum():
        raise InputError(f"{path} is broken: its sizes do not add up to its tokens; {ADVICE}")
    return Index(dtype, sizes, data_offsets[:-1], offset_step=1, first_token=1)
