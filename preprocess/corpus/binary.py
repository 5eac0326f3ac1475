"""From subwords to fairseq's dictionaries and binary files.

The files are those of fairseq-preprocess, which reads each line three times in Python, word by
word.
"""

import functools
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from aiayn_plugin.text.dictionary import Vocabulary, read_dictionary

from .parallel import Counts, LinePairs, map_pairs
from .stages import Stage
from .tokens import Job

#: The subwords of the training text, a line each: side, subword, count.
SUBWORDS_FILE = "pieces.tsv"


def write_counts(path: Path, counts: Counts) -> None:
    """Write the counts of `count_subwords`."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{subword} {count}\n" for subword, count in counts.items())


def read_counts(path: Path) -> list[Counts]:
    """Return the count of each subword of each side."""
    counts = [Counts(), Counts()]
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            side, subword, count = line.rstrip("\n").split(" ")
            counts[int(side)][subword] = int(count)
    return counts


def count_subwords(sides: Sequence[Iterable[str]]) -> Counts:
    """Return the count of each subword of each side: {"0 the": 7, "1 der": 5}."""
    counts = Counts()
    for side, lines in enumerate(sides):
        of_side = Counts(subword for line in lines for subword in line.split())
        counts.update({f"{side} {subword}": count for subword, count in of_side.items()})
    return counts


def build_dictionaries(counts: Path, joined: bool) -> list[Any]:
    """Return fairseq's dictionary of each side; if joined, the same one twice.

    Like fairseq-preprocess: the most frequent subword first, padded to a multiple of 8 entries.
    """
    from fairseq.data import Dictionary

    source, target = read_counts(counts)
    dictionaries = []
    for of_side in [source + target] if joined else [source, target]:
        dictionary = Dictionary()
        for subword, count in sorted(of_side.items()):
            dictionary.add_symbol(subword, count)
        dictionary.finalize(padding_factor=8)
        dictionaries.append(dictionary)
    return dictionaries * 2 if joined else dictionaries


def binarise(job: Job, split: str, encoded: Stage, dictionaries: list[Any], destdir: Path) -> None:
    """Write the binary files of a split to destdir, which contains the dictionaries as well."""
    from fairseq.data import indexed_dataset
    from torch import from_numpy

    stems = [str(destdir / f"{split}.{'-'.join(job.langs)}.{lang}") for lang in job.langs]
    builders = [
        indexed_dataset.make_builder(f"{stem}.bin", "mmap", len(dictionary))
        for stem, dictionary in zip(stems, dictionaries, strict=True)
    ]
    step = functools.partial(encode_batch, [destdir / f"dict.{lang}.txt" for lang in job.langs])
    files, pairs = job.files(encoded.folder), encoded.result["pairs"]
    for batch in map_pairs(job.workers, step, [files], pairs, f"binarising {split}"):
        for builder, (ids, lengths) in zip(builders, batch, strict=True):
            for sentence in from_numpy(ids).split(lengths):
                builder.add_item(sentence)
    for builder, stem in zip(builders, stems, strict=True):
        builder.finalize(f"{stem}.idx")


@functools.cache  # one for each process
def _vocabulary(dictionary: Path) -> Vocabulary:
    return Vocabulary(word for word, _ in read_dictionary(dictionary))


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
