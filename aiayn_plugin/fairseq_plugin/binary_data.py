"""fairseq's binary data: a .bin holds the tokens of sentences, an .idx their sizes and offsets.

fairseq does not check these files: a .bin of zeros is read as sentences of <s>, and a token ID
outside the dictionary crashes training hours later. So each pair is checked when it is loaded.
"""

import struct
from pathlib import Path

import numpy as np
from fairseq.data.indexed_dataset import MMapIndexedDataset, _code_to_dtype

from ..errors import InputError

ADVICE = "copy both files again, or prepare the data again"
#: The start of an .idx (--dataset-impl mmap): magic, version, token type, sentences.
HEADER = struct.Struct("<9sQBQ")
#: Sentences that are checked at a time.
CHUNK_SIZE = 1 << 18


def check_sentences(prefix: str, vocabulary: int, eos: int) -> int:
    """Return the number of sentences in prefix.idx and prefix.bin.

    vocabulary: size of the dictionary. eos: the token that ends each sentence. Raises InputError if
    a file is missing or broken, or if the files do not match each other or the dictionary. Reads
    the .bin once.
    """
    idx, bin = Path(f"{prefix}.idx"), Path(f"{prefix}.bin")
    if missing := [str(path) for path in (idx, bin) if not path.is_file()]:
        raise InputError(f"missing: {' and '.join(missing)}; {ADVICE}")
    try:
        dtype, sizes, offsets = _read_index(idx)
        ends = np.cumsum(sizes, dtype=np.int64)
        if (invalid := (sizes < 1) | ((ends - sizes) * dtype.itemsize != offsets)).any():
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
    for first in range(0, len(sizes), CHUNK_SIZE):
        chunk_ends = ends[first : first + CHUNK_SIZE]
        start = chunk_ends[0] - sizes[first]
        flaw = _find_flaw(tokens[start : chunk_ends[-1]], chunk_ends - start, vocabulary, eos)
        if flaw is not None:
            sentence, problem = flaw
            raise InputError(
                f"{bin}: sentence {first + sentence + 1} {problem}: the file is broken or was made "
                f"with a different dictionary; {ADVICE}"
            )
    return len(sizes)


def _find_flaw(
    tokens: np.ndarray, ends: np.ndarray, vocabulary: int, eos: int
) -> tuple[int, str] | None:
    """Return the index of a sentence that is invalid, and the reason, or None.

    ends: the end of each sentence in the tokens.
    """
    unknown = (tokens < 0) | (tokens >= vocabulary)
    if unknown.any():
        position = np.argmax(unknown)
        reason = (
            f"has the token ID {int(tokens[position])}, but the dictionary has {vocabulary:,} "
            "entries"
        )
        return int(np.searchsorted(ends, position, "right")), reason
    unfinished = tokens[ends - 1] != eos
    if unfinished.any():
        return int(np.argmax(unfinished)), "does not end with the end symbol"
    return None


def _read_index(path: Path) -> tuple[np.dtype, np.ndarray, np.ndarray]:
    """Return the type of the tokens, and the size and offset of each sentence, from an .idx.

    Raises InputError if it is broken, OSError if unreadable.
    """
    with open(path, "rb") as file:
        header = file.read(HEADER.size)
    if not header.startswith(MMapIndexedDataset.Index._HDR_MAGIC) or len(header) < HEADER.size:
        raise InputError(f"{path} is not a fairseq index: {ADVICE}")
    _, version, code, sentences = HEADER.unpack(header)
    dtype = np.dtype(_code_to_dtype.get(code, object))
    if version != 1 or dtype.kind not in "iu":
        raise InputError(
            f"{path} is broken: its header has version {version} and token type {code}; {ADVICE}"
        )
    expected_size = HEADER.size + 12 * sentences
    if (size := path.stat().st_size) != expected_size:
        raise InputError(
            f"{path} is broken: it has {size:,} bytes instead of {expected_size:,} for the "
            f"{sentences:,} sentences of its header; {ADVICE}"
        )
    if not sentences:
        raise InputError(f"{path} holds no sentences: {ADVICE}")
    sizes = np.memmap(path, np.int32, "r", HEADER.size, sentences)
    return dtype, sizes, np.memmap(path, np.int64, "r", HEADER.size + sizes.nbytes, sentences)
