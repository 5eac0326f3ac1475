"""Files of bracketed trees: those of a treebank's sections, and their checksums (§6.3)."""

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ..errors import InputError
from ..text.manifest import hash_file
from .parallel import Workers


class TreeSet(NamedTuple):
    """Trees of one kind: the slice `kept` of those in the files, each repeated `weight` times.

    wsj_labels: whether their labels and tags are mapped to those of the Wall Street Journal.
    recombined: if above 0, the number of recombined trees that replace each tree.
    """

    name: str
    files: list[Path]
    kept: slice = slice(None)
    weight: float = 1.0
    wsj_labels: bool = False
    recombined: int = 0


def find_sections(treebank: Path, numbers: Iterable[int]) -> list[Path]:
    """Return the files of sections of the Wall Street Journal, in order.

    treebank: a directory that contains them at any depth, as `wsj_0201.mrg` and so on. Raises
    InputError if a section is missing or a file name occurs twice.
    """
    pattern = re.compile(r"wsj_(\d\d)\d\d\.mrg", re.IGNORECASE)
    files = sorted(
        (
            Path(folder, name)
            for folder, _, names in os.walk(treebank, followlinks=True)
            for name in names
            if pattern.fullmatch(name)
        ),
        key=lambda path: path.name.lower(),
    )
    for file, following in zip(files, files[1:], strict=False):
        if file.name.lower() == following.name.lower():
            raise InputError(
                f"{file} and {following} have the same name: give the directory of one of them"
            )
    sections: dict[int, list[Path]] = {}
    for path in files:
        sections.setdefault(int(path.name[4:6]), []).append(path)
    for number in numbers:
        if number not in sections:
            raise InputError(
                f"{treebank} has no files of section {number:02}, such as wsj_{number:02}00.mrg: "
                "give the directory of the Penn Treebank that contains parsed/mrg/wsj"
            )
    return [path for number in numbers for path in sections[number]]


def hash_trees(trees: TreeSet, workers: Workers) -> str:
    """Return a checksum of files and settings. Raises InputError if a file is missing."""
    for path in trees.files:
        if not path.is_file():
            split, _, kind = trees.name.partition(".")
            option = kind.rstrip("0123456789") or split
            raise InputError(f"no file {path}: see --{option}")
    files = list(workers.pool.map(hash_file, trees.files))
    return hashlib.sha256(repr((files, trees[2:])).encode()).hexdigest()
