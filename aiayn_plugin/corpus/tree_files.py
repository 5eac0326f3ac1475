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
    files: dict[str, Path] = {}
    for folder, _, names in os.walk(treebank, followlinks=True):
        for name in names:
            path = Path(folder, name)
            if re.fullmatch(r"wsj_\d{4}\.mrg", name.lower()):
                if (other := files.setdefault(name.lower(), path)) != path:
                    raise InputError(
                        f"{other} and {path} have the same name: give the directory of one of them"
                    )
    sections = []
    for number in numbers:
        names = sorted(name for name in files if name.startswith(f"wsj_{number:02}"))
        if not names:
            raise InputError(
                f"{treebank} has no files of section {number:02}, such as wsj_{number:02}00.mrg: "
                "give the directory of the Penn Treebank that contains parsed/mrg/wsj"
            )
        sections += [files[name] for name in names]
    return sections


def hash_trees(trees: TreeSet, workers: Workers) -> str:
    """Return a checksum of files and settings. Raises InputError if a file is missing."""
    for path in trees.files:
        if not path.is_file():
            split, _, kind = trees.name.partition(".")
            option = kind.rstrip("0123456789") or split
            raise InputError(f"no file {path}: see --{option}")
    files = list(workers.pool.map(hash_file, trees.files))
    return hashlib.sha256(repr((files, trees[2:])).encode()).hexdigest()
