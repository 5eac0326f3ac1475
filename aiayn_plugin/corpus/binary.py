"""From subwords to fairseq's dictionaries and binary files.

The files equal those of fairseq-preprocess, which is slower: it reads each line three times in
Python, word by word.
"""

import contextlib
import functools
import itertools
import struct
from itertools import chain, islice
from pathlib import Path

import numpy as np

from ..text.dictionary import SPECIAL_SYMBOLS, Vocabulary, read_dictionary
from .parallel import Counts, LinePairs, map_pairs
from .stages import Stage
from .tokens import Job

#: Dictionary size from which token IDs take four bytes instead of two, as in fairseq.
MIN_WIDE = 65_500
#: fairseq's codes for the types of token IDs, in an .idx.
TYPE_CODES = {"uint16": 8, "uint32": 9}


def write_dictionary(path: Path, counts: Counts) -> None:
    """Write the dictionary that fairseq-preprocess writes for these counts.

    Frequent subwords come first, and words with a count of 0 pad the size to a multiple of 8.
    """
    subwords = sorted(counts.keys() - {*SPECIAL_SYMBOLS}, key=lambda name: (-counts[name], name))
    missing = -(len(SPECIAL_SYMBOLS) + len(subwords)) % 8
    names = map("madeupword{:04}".format, itertools.count())
    unused = (name for name in names if name not in counts)
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for name in chain(subwords, islice(unused, missing)):
            file.write(f"{name} {counts[name]}\n")


def binarise(job: Job, split: str, encoded: Stage, destdir: Path) -> None:
    """Write the binary files of a split to destdir, which contains the dictionaries."""
    langs = job.settings.languages
    dictionaries = [destdir / name for name in job.settings.dictionaries]
    stems = [destdir / f"{split}.{'-'.join(langs)}.{lang}" for lang in langs]
    sizes = [len(SPECIAL_SYMBOLS) + len(read_dictionary(path)) for path in dictionaries]
    types = [np.dtype(np.uint16 if size < MIN_WIDE else np.uint32) for size in sizes]
    lengths: list[list[int]] = [[] for _ in stems]
    step = functools.partial(encode_batch, dictionaries)
    files, pairs = job.files(encoded.folder), encoded.result["pairs"]
    with contextlib.ExitStack() as stack:
        outputs = [stack.enter_context(open(f"{stem}.bin", "wb")) for stem in stems]
        for batch in map_pairs(job.workers, step, [files], pairs, f"binarising {split}"):
            for side, (ids, side_lengths) in enumerate(batch):
                outputs[side].write(ids.astype(types[side]).tobytes())
                lengths[side] += side_lengths
    for stem, dtype, side_lengths in zip(stems, types, lengths, strict=True):
        _write_index(Path(f"{stem}.idx"), dtype, np.array(side_lengths, np.int32))


def _write_index(path: Path, dtype: np.dtype, lengths: np.ndarray) -> None:
    """Write the .idx of --dataset-impl mmap: lengths, and offsets in bytes, of all sentences."""
    offsets = (np.cumsum(lengths, dtype=np.int64) - lengths) * dtype.itemsize
    with open(path, "wb") as file:
        header = b"MMIDIDX\0\0", 1, TYPE_CODES[dtype.name], len(lengths)
        file.write(struct.pack("<9sQBQ", *header))
        file.write(lengths.tobytes())
        file.write(offsets.tobytes())


@functools.cache  # in worker processes, which end with the build
def _vocabulary(dictionary: Path) -> Vocabulary:
    return Vocabulary(read_dictionary(dictionary))


def encode_batch(dictionaries: list[Path], pairs: LinePairs) -> list[tuple[np.ndarray, list[int]]]:
    """Return, for each side, all token IDs and the length of each sentence.

    dictionaries: the file of each side.
    """
    sides = []
    for dictionary, lines in zip(dictionaries, zip(*pairs, strict=True), strict=True):
        encode = _vocabulary(dictionary).encode
        sentences = [encode(line.decode().split()) for line in lines]
        ids = np.array(list(chain.from_iterable(sentences)), dtype=np.int32)
        sides.append((ids, list(map(len, sentences))))
    return sides
