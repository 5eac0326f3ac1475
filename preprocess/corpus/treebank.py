"""From files of bracketed trees to sentences and linearised trees (§6.3)."""

import contextlib
import functools
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from math import floor
from pathlib import Path
from typing import Any, NamedTuple

from aiayn_plugin.errors import InputError
from aiayn_plugin.parsing.linearisation import linearise_tree
from aiayn_plugin.parsing.trees import Tree, clean_tree, format_tree, read_trees, tree_words
from aiayn_plugin.text.lines import MAX_WORD_LENGTH
from aiayn_plugin.text.manifest import hash_file

from .console import progress
from .parallel import Batch, Counts, LinePairs, Workers
from .stages import Stage, make_stage
from .tokens import Cleaning, Job, Text, make_tokens


class TreeSet(NamedTuple):
    """Trees of one kind: of these files, those in the slice `kept`, each `weight` times."""

    name: str
    files: list[Path]
    kept: slice = slice(None)
    weight: float = 1.0


def find_sections(treebank: Path, numbers: Iterable[int]) -> list[Path]:
    """Return the files of sections of the Wall Street Journal, in order.

    treebank: a directory that contains them at any depth, as `wsj_0201.mrg` and so on. Raises
    InputError if a section is missing or a file name occurs twice.
    """
    pattern = re.compile(r"wsj_(\d\d)\d\d\.mrg", re.IGNORECASE)
    files = sorted(
        (path for path in _walk(treebank) if pattern.fullmatch(path.name)),
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


def _walk(directory: Path) -> Iterator[Path]:
    """Yield the files below a directory; follow links, but visit each directory once."""
    visited: set[str] = set()
    for folder, folders, names in os.walk(directory, followlinks=True):
        if (real := os.path.realpath(folder)) in visited:
            folders.clear()
            continue
        visited.add(real)
        yield from (Path(folder, name) for name in names)


def hash_trees(trees: TreeSet, workers: Workers) -> str:
    """Return a checksum of files, slice and weight. Raises InputError if a file is missing."""
    for path in trees.files:
        if not path.is_file():
            split, _, kind = trees.name.partition(".")
            option = kind.rstrip("0123456789") or split
            raise InputError(f"no file {path}: see --{option}")
    files = list(workers.pool.map(hash_file, trees.files))
    return hashlib.sha256(repr((files, trees.kept, trees.weight)).encode()).hexdigest()


def read_tree_set(job: Job, trees: TreeSet) -> Text:
    """Return a parallel text: the words of each sentence, and its cleaned tree on one line.

    Raises InputError if a tree is malformed, with file and line, or if there are none.
    """

    def make(folder: Path) -> dict[str, Any]:
        outputs = [folder / f"{number}.part" for number in range(len(trees.files))]
        counts = []
        with progress(f"reading the trees of {trees.name}", len(outputs), "files") as add:
            for count in job.workers.pool.map(_read_file, trees.files, outputs):
                counts.append(count)
                add(1)
        kept = range(sum(counts))[trees.kept]
        lines = _write_kept(outputs, job.files(folder), kept, trees.weight)
        if not lines:
            why = "" if trees.kept == slice(None) else "; --hold-out leaves none for training"
            raise InputError(
                f"{trees.name}: found {sum(counts):,} trees in {len(outputs):,} files{why}"
            )
        return {"lines": lines}

    stage = make_stage(job.work, f"trees.{trees.name}", hash_trees(trees, job.workers), make)
    return Text(trees.name, job.files(stage.folder), stage.result["lines"], (stage.key,))


def _read_file(path: Path, output: Path) -> int:
    """Write the words and the tree of each sentence of a file; return the number of sentences."""
    number = 0
    with open(output, "w", encoding="utf-8", newline="\n") as file:
        for tree in map(clean_tree, read_trees(path)):
            if tree is not None:
                file.write(f"{' '.join(tree_words(tree))}\t{format_tree(tree)}\n")
                number += 1
    return number


def _write_kept(inputs: list[Path], dests: Iterable[Path], kept: range, weight: float) -> int:
    """Write the sentences and trees in `kept`, remove the inputs, return the number of lines.

    With weight 2.5, they are written twice and three times by turns.
    """
    number = lines = 0
    with contextlib.ExitStack() as stack:
        sides = [stack.enter_context(open(dest, "wb")) for dest in dests]
        for path in inputs:
            with open(path, "rb") as file:
                for line in file:
                    if number in kept:
                        i = number - kept.start
                        copies = floor((i + 1) * weight) - floor(i * weight)
                        sentence, _, tree = line.partition(b"\t")
                        sides[0].write((sentence + b"\n") * copies)
                        sides[1].write(tree * copies)
                        lines += copies
                    number += 1
            path.unlink()
    return lines


def linearise(job: Job, text: Text, split: str) -> Stage:
    """Write words and linearised trees. For training, also drop unfit pairs and count the words."""
    cleaning = job.cleaning(split)
    step = functools.partial(linearise_batch, cleaning)
    return make_tokens(job, text, step, f"linearising {text.name}", [text.key, cleaning])


def linearise_batch(cleaning: Cleaning | None, pairs: LinePairs) -> Batch:
    """Return sentences with their linearised trees, from sentences with bracketed trees."""
    kept: list[tuple[str, str]] = []
    dropped, counts = Counts(), Counts()
    for sentence, tree in ((source.decode(), target.decode()) for source, target in pairs):
        symbols = linearise_tree(Tree.fromstring(tree))
        tokens = sentence.split()
        flaw = cleaning.find_flaw(len(tokens), len(symbols)) if cleaning else None
        if cleaning and max(map(len, tokens)) > MAX_WORD_LENGTH:
            flaw = "word too long"
        if flaw:
            dropped[flaw] += 1
            continue
        counts.update(tokens)
        kept.append((sentence, " ".join(symbols)))
    return Batch.join(kept, dropped, counts)
