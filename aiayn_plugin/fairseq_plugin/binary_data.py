"""fairseq's binary sentences: an .idx with their sizes beside a .bin with their tokens.

fairseq believes both files whatever they hold: a .bin of zeros is sentences of <s>, and a token
beyond the dictionary ends a training hours later. So each pair is checked once when it is loaded.
"""

import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
from fairseq.data.indexed_dataset import IndexedDataset, MMapIndexedDataset, _code_to_dtype

from ..errors import InputError

ADVICE = "get both files anew, or prepare the data anew"
#: The heads of an .idx: --dataset-impl mmap, then cached and lazy.
_MMAP = struct.Struct("<9sQBQ")  # magic, version, type of the tokens, sentences
_OLD = struct.Struct("<8sQQQQQ")  # magic, version, type, bytes of a token, sentences, dimensions
_MMAP_MAGIC = MMapIndexedDataset.Index._HDR_MAGIC
_OLD_MAGIC = IndexedDataset._HDR_MAGIC
#: Sentences that are looked at together.
_CHUNK = 1 << 18


class Index(NamedTuple):
    """What an .idx says of its .bin."""

    dtype: np.dtype
    sizes: np.ndarray  # tokens of each sentence
    offsets: np.ndarray  # where each begins
    unit: int  # of the offsets: so many of them are a token
    first: int  # the number in the .bin that stands for the dictionary's first entry


def check_sentences(prefix: str, entries: int, eos: int) -> int:
    """Return how many sentences prefix.idx and prefix.bin hold.

    entries: those of the dictionary. eos: the number of the end symbol; fairseq-preprocess ends
    each sentence in it. Raises InputError if one of the files is broken, or if they do not belong
    together or to the dictionary. It reads the .bin once, in bounded memory.
    """
    idx, bin = Path(f"{prefix}.idx"), Path(f"{prefix}.bin")
    for path, other in ((idx, bin), (bin, idx)):
        if not path.is_file():
            raise InputError(f"{path} is missing beside {other.name}: {ADVICE}")
    try:
        index = read_index(idx)
        if (odd := index.sizes < 1).any():
            raise _misplaced(idx, odd, 0)
        size, wanted = bin.stat().st_size, int(index.sizes.sum(dtype=np.int64))
        if size != wanted * index.dtype.itemsize:
            raise InputError(
                f"{bin} has {size:,} bytes, and its .idx is of {wanted:,} tokens of "
                f"{index.dtype.itemsize}: the files do not belong together, or one is "
                f"cut; {ADVICE}"
            )
        _check_tokens(idx, bin, index, entries, eos)
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}") from None
    return len(index.sizes)


def read_index(path: Path) -> Index:
    """Return the content of an .idx. Raises InputError if it is broken, OSError if unreadable."""
    with open(path, "rb") as file:
        head = file.read(_OLD.size)
    mmap = head.startswith(_MMAP_MAGIC) and len(head) >= _MMAP.size
    if mmap:
        _, version, code, sentences = _MMAP.unpack_from(head)
        length = _MMAP.size + 12 * sentences
    elif head.startswith(_OLD_MAGIC) and len(head) == _OLD.size:
        _, version, code, width, sentences, dimensions = _OLD.unpack(head)
        length = _OLD.size + 8 * (2 * (sentences + 1) + dimensions)
    else:
        raise InputError(f"{path} is no index of fairseq's: {ADVICE}")
    dtype = np.dtype(_code_to_dtype.get(code, object))
    if version != 1 or dtype.kind not in "iu":
        raise InputError(
            f"{path} is broken, its head says version {version} and type {code}: {ADVICE}"
        )
    if (size := path.stat().st_size) != length:
        raise InputError(
            f"{path} is broken: it has {size:,} bytes, and {length:,} for the "
            f"{sentences:,} sentences of its head; {ADVICE}"
        )
    if not sentences:
        raise InputError(f"{path} holds no sentence: {ADVICE}")
    if mmap:
        sizes = np.memmap(path, np.int32, "r", _MMAP.size, sentences)
        offsets = np.memmap(path, np.int64, "r", _MMAP.size + 4 * sentences, sentences)
        return Index(dtype, sizes, offsets, dtype.itemsize, 0)
    table = np.memmap(path, np.int64, "r", _OLD.size, (2, sentences + 1))  # dimensions, offsets
    if dimensions != sentences or (table[0] != np.arange(sentences + 1)).any():
        raise InputError(f"{path} is broken or holds tables, not sentences: {ADVICE}")
    sizes = np.memmap(path, np.int64, "r", _OLD.size + 16 * (sentences + 1), sentences)
    if width != dtype.itemsize or table[1, -1] != sizes.sum():
        raise InputError(f"{path} is broken: its sizes do not make up its tokens; {ADVICE}")
    return Index(dtype, sizes, table[1, :-1], 1, 1)  # this format counts from 1


def _check_tokens(idx: Path, bin: Path, index: Index, entries: int, eos: int) -> None:
    """Raise InputError unless a .bin holds its index's sentences of the dictionary's words."""
    lowest, beyond = index.first, index.first + entries
    tokens, begin = np.memmap(bin, index.dtype, "r"), 0
    for start in range(0, len(index.sizes), _CHUNK):
        sizes = index.sizes[start : start + _CHUNK]
        ends = begin + np.cumsum(sizes, dtype=np.int64)
        offsets = index.offsets[start : start + _CHUNK]
        if (odd := (ends - sizes) * index.unit != offsets).any():
            raise _misplaced(idx, odd, start)
        chunk = tokens[begin : ends[-1]]
        if chunk.max() >= beyond or chunk.min() < lowest:
            place = int(np.argmax((chunk >= beyond) | (chunk < lowest)))
            sentence = start + int(np.searchsorted(ends, begin + place, "right")) + 1
            raise InputError(
                f"{bin}: sentence {sentence} holds the token {int(chunk[place]) - lowest}, and "
                f"the dictionary has {entries:,} entries: the file is broken or of another "
                f"dictionary; {ADVICE}"
            )
        if (odd := tokens[ends - 1] != lowest + eos).any():
            sentence = start + int(np.argmax(odd)) + 1
            raise InputError(
                f"{bin}: sentence {sentence} does not end in the end symbol: the file "
                f"is broken or of another dictionary; {ADVICE}"
            )
        begin = int(ends[-1])


def _misplaced(idx: Path, odd: np.ndarray, start: int) -> InputError:
    """Return the error for the first odd sentence of a chunk."""
    sentence = start + int(np.argmax(odd)) + 1
    return InputError(
        f"{idx} is broken: size and place of sentence {sentence} do not fit; {ADVICE}"
    )
