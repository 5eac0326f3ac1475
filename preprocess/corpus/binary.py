"""From subwords to the binary files of fairseq: its own dictionary, its own builder.

fairseq-preprocess gives the same bytes, but reads each line three times in Python, word by word.
"""

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aiayn_plugin.text.dictionary import read_dictionary

from .parallel import Counts, LinePairs, map_pairs
from .stages import Stage
from .tokens import Job

#: The pieces of the training text, and how often each is there: side, piece, count.
PIECES_FILE = "pieces.tsv"
#: The entries that each dictionary of fairseq begins with, and its file does not have.
SPECIAL_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")


class Numbers(NamedTuple):
    """Some pairs as numbers: for each side all of its tokens, and the length of each sentence."""

    sides: list[tuple[np.ndarray, list[int]]]
    read: int


def write_pieces(path: Path, counts: Counts) -> None:
    """Write the counts of "side piece"."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{piece} {count}\n" for piece, count in counts.items())


def read_pieces(path: Path) -> list[Counts]:
    """Return how often each piece is on each side."""
    counts = [Counts(), Counts()]
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            side, piece, count = line.rstrip("\n").split(" ")
            counts[int(side)][piece] = int(count)
    return counts


def count_pieces(sides: Sequence[Iterable[str]]) -> Counts:
    """Return how often each piece is on each side: {"0 the": 7, "1 der": 5}."""
    counts = Counts()
    for side, lines in enumerate(sides):
        of_side = Counts(piece for line in lines for piece in line.split())
        counts.update({f"{side} {piece}": count for piece, count in of_side.items()})
    return counts


def dictionaries(pieces: Path, joined: bool) -> list[Any]:
    """Return fairseq's dictionary of each side; one for both if joined.

    As fairseq-preprocess: the most frequent piece first, up to a multiple of 8 entries.
    """
    from fairseq.data import Dictionary

    source, target = read_pieces(pieces)
    made = []
    for of_side in [source + target] if joined else [source, target]:
        dictionary = Dictionary()
        for piece, times in sorted(of_side.items()):
            dictionary.add_symbol(piece, times)
        dictionary.finalize(padding_factor=8)
        made.append(dictionary)
    return made * 2 if joined else made


def binarise(job: Job, split: str, encoded: Stage, words: list[Any], destdir: Path) -> None:
    """Write the binary files of a split. words: the dictionary of each side, in destdir too."""
    from fairseq.data import indexed_dataset
    from torch import from_numpy

    source, target = job.langs
    stems = [str(destdir / f"{split}.{source}-{target}.{lang}") for lang in job.langs]
    builders = [
        indexed_dataset.make_builder(f"{stem}.bin", "mmap", len(dictionary))
        for stem, dictionary in zip(stems, words, strict=True)
    ]
    files = [destdir / f"dict.{lang}.txt" for lang in job.langs]
    step, pairs = functools.partial(number_batch, files), encoded.result["pairs"]
    for numbers in map_pairs(
        job.workers, step, [job.files(encoded.folder)], pairs, f"binarising {split}"
    ):
        for builder, (tokens, lengths) in zip(builders, numbers.sides, strict=True):
            for sentence in from_numpy(tokens).split(lengths):
                builder.add_item(sentence)
    for builder, stem in zip(builders, stems, strict=True):
        builder.finalize(f"{stem}.idx")


@functools.cache  # one for each process
def _numbers(dictionary: Path) -> dict[str, int]:
    """Return the number of each piece; an unknown one is <unk>, as one that is named so."""
    words = (*SPECIAL_SYMBOLS, *(word for word, _ in read_dictionary(dictionary)))
    return {word: number for number, word in enumerate(words)}


def number_batch(dictionaries: list[Path], pairs: LinePairs) -> Numbers:
    """Return pairs of subwords as numbers. dictionaries: the files of both sides."""
    sides = []
    for numbers, lines in zip(map(_numbers, dictionaries), zip(*pairs, strict=True), strict=True):
        unk, end = numbers["<unk>"], numbers["</s>"]
        tokens, lengths = list[int](), list[int]()
        for line in lines:
            before = len(tokens)
            tokens.extend(numbers.get(piece, unk) for piece in line.decode().split())
            tokens.append(end)
            lengths.append(len(tokens) - before)
        sides.append((np.array(tokens, dtype=np.int32), lengths))
    return Numbers(sides, len(pairs))
