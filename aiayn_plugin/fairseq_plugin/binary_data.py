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
    offset_unit: int  # offset units per token
    first_token: int  # the number in the .bin that stands for token ID 0


def check_sentences(prefix: str, vocabulary: int, eos: int, chunk_size: int = 1 << 18) -> int:
    """Return the number of sentences in prefix.idx and prefix.bin.

    vocabulary: entries of the dictionary. eos: the token that ends each sentence. Raises InputError
    if a file is broken, or if the files do not match each other or the dictionary. Reads the .bin
    once, chunk_size sentences at a time.
    """
    idx, bin = Path(f"{prefix}.idx"), Path(f"{prefix}.bin")
    for path, counterpart in ((idx, bin), (bin, idx)):
        if not path.is_file():
            raise InputError(f"{path} is missing, but {counterpart.name} exists: {ADVICE}")
    try:
        index = read_index(idx)
        if (invalid := index.sizes < 1).any():
            raise _broken_entry(idx, int(np.argmax(invalid)))
        actual, tokens = bin.stat().st_size, int(index.sizes.sum(dtype=np.int64))
        if actual != tokens * index.dtype.itemsize:
            raise InputError(
                f"{bin} has {actual:,} bytes, but its .idx lists {tokens:,} tokens of "
                f"{index.dtype.itemsize} bytes: the files do not match, or one is truncated; "
                f"{ADVICE}"
            )
        _check_tokens(idx, bin, index, vocabulary, eos, chunk_size)
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}") from None
    return len(index.sizes)


def read_index(path: Path) -> Index:
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
        offsets = np.memmap(path, np.int64, "r", _MMAP_HEADER.size + 4 * sentences, sentences)
        return Index(dtype, sizes, offsets, offset_unit=dtype.itemsize, first_token=0)
    start, entries = _CACHED_HEADER.size, sentences + 1
    ends = np.memmap(path, np.int64, "r", start, (2, entries))  # of dimensions, of sentences
    if dimensions != sentences or (ends[0] != np.arange(entries)).any():
        raise InputError(f"{path} is broken or holds tables instead of sentences: {ADVICE}")
    sizes = np.memmap(path, np.int64, "r", start + 16 * entries, sentences)
    if token_bytes != dtype.itemsize or ends[1, -1] != sizes.sum():
        raise InputError(f"{path} is broken: its sizes do not add up to its tokens; {ADVICE}")
    return Index(dtype, sizes, ends[1, :-1], offset_unit=1, first_token=1)


def _check_tokens(
    idx: Path, bin: Path, index: Index, vocabulary: int, eos: int, chunk_size: int
) -> None:
    """Raise InputError unless the sentences are where the index says and end with eos."""
    lowest, limit = index.first_token, index.first_token + vocabulary
    tokens, chunk_start = np.memmap(bin, index.dtype, "r"), 0
    for first in range(0, len(index.sizes), chunk_size):
        sizes = index.sizes[first : first + chunk_size]
        offsets = index.offsets[first : first + chunk_size]
        ends = chunk_start + np.cumsum(sizes, dtype=np.int64)
        if (invalid := (ends - sizes) * index.offset_unit != offsets).any():
            raise _broken_entry(idx, first + int(np.argmax(invalid)))
        chunk = tokens[chunk_start : ends[-1]]
        if chunk.max() >= limit or chunk.min() < lowest:
            position = int(np.argmax((chunk >= limit) | (chunk < lowest)))
            sentence = first + int(np.searchsorted(ends, chunk_start + position, "right")) + 1
            raise InputError(
                f"{bin}: sentence {sentence} has the token ID {int(chunk[position]) - lowest}, but "
                f"the dictionary has {vocabulary:,} entries: the file is broken or was made with "
                f"a different dictionary; {ADVICE}"
            )
        if (invalid := tokens[ends - 1] != lowest + eos).any():
            sentence = first + int(np.argmax(invalid)) + 1
            raise InputError(
                f"{bin}: sentence {sentence} does not end with the end symbol: the file is broken "
                f"or was made with a different dictionary; {ADVICE}"
            )
        chunk_start = int(ends[-1])


def _broken_entry(idx: Path, position: int) -> InputError:
    return InputError(
        f"{idx} is broken: the size or offset of sentence {position + 1} is invalid; {ADVICE}"
    )
