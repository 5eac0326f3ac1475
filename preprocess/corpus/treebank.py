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

from nltk import Tree

from aiayn_plugin.errors import InputError
from aiayn_plugin.parsing.linearisation import linearise_tree
from aiayn_plugin.parsing.trees import clean_tree, format_tree, read_trees, tree_words
from aiayn_plugin.text.lines import MAX_WORD_LENGTH
from aiayn_plugin.text.manifest import sha256

from .console import progress
from .parallel import Batch, Counts, LinePairs, Workers
from .stages import Stage, make_stage
from .tokens import Cleaning, Job, Text, tokens_stage


class Part(NamedTuple):
    """Trees of one kind: of these files, those in `kept`, each `weight` times."""

    name: str
    files: list[Path]
    kept: slice = slice(None)
    weight: float = 1.0


def sections(treebank: Path, numbers: Iterable[int]) -> list[Path]:
    """Return the files of some sections of the Wall Street Journal, in their order.

    treebank: a directory that has them anywhere below it, as `wsj_0201.mrg` and so on. Raises
    InputError if a section is missing, or if a file is there twice.
    """
    named = re.compile(r"wsj_(\d\d)\d\d\.mrg", re.IGNORECASE)
    files = sorted(
        (path for path in _below(treebank) if named.fullmatch(path.name)),
        key=lambda path: path.name.lower(),
    )
    for one, next_ in zip(files, files[1:], strict=False):
        if one.name.lower() == next_.name.lower():
            raise InputError(f"{one} and {next_} have one name: give the directory of one of them")
    of_section: dict[int, list[Path]] = {}
    for path in files:
        of_section.setdefault(int(path.name[4:6]), []).append(path)
    missing = [f"{number:02}" for number in numbers if number not in of_section]
    if missing:
        raise InputError(
            f"{treebank} has no files of section {missing[0]}, such as "
            f"wsj_{missing[0]}00.mrg: give the directory of the Penn Treebank, with "
            "parsed/mrg/wsj in it"
        )
    return [path for number in numbers for path in of_section[number]]


def _below(directory: Path) -> Iterator[Path]:
    """Yield the files below a directory, links to directories followed, each directory once."""
    seen: set[str] = set()
    for folder, folders, names in os.walk(directory, followlinks=True):
        if (real := os.path.realpath(folder)) in seen:
            folders.clear()
            continue
        seen.add(real)
        yield from (Path(folder, name) for name in names)


def digest(part: Part, workers: Workers) -> str:
    """Return a checksum of all that a part consists of. Raises InputError if a file is missing."""
    for path in part.files:
        if not path.is_file():
            raise InputError(f"no file {path}: see {_option(part.name)}")
    files = list(workers.pool.map(sha256, part.files))
    return hashlib.sha256(repr((files, part.kept, part.weight)).encode()).hexdigest()


def _option(name: str) -> str:
    split, _, kind = name.partition(".")
    return f"--{kind.rstrip('0123456789') or split}"


def read(job: Job, part: Part) -> Text:
    """Return the trees of a part, cleaned, one a line, beside their words.

    Raises InputError if one is malformed, with file and line, or if there is none.
    """

    def make(folder: Path) -> dict[str, Any]:
        places = [folder / f"{number}.part" for number in range(len(part.files))]
        count, activity = len(part.files), f"reading the trees of {part.name}"
        read_now = job.workers.pool.map(_read_file, part.files, places)
        with progress(
            lambda done: f"{activity}: {done:,} of {count:,} files",
            count,
            desc=activity,
            unit=" files",
        ) as add:
            trees = []
            for number in read_now:
                trees.append(number)
                add(1)
        kept = range(sum(trees))[part.kept]
        lines = _write_kept(places, job.files(folder), kept, part.weight)
        if not lines:
            why = "" if part.kept == slice(None) else ", for --hold-out takes so many"
            raise InputError(
                f"{part.name}: no tree is left of {sum(trees):,} in {count:,} files{why}"
            )
        return {"lines": lines}

    stage = make_stage(job.work, f"trees.{part.name}", digest(part, job.workers), make)
    return Text(part.name, job.files(stage.folder), stage.result["lines"], (stage.key,))


def _read_file(path: Path, place: Path) -> int:
    """Write the words and the tree of each sentence of a file; return how many there are."""
    number = 0
    with open(place, "w", encoding="utf-8", newline="\n") as file:
        for tree in map(clean_tree, read_trees(path)):
            if tree is not None:
                file.write(f"{' '.join(tree_words(tree))}\t{format_tree(tree)}\n")
                number += 1
    return number


def _write_kept(places: list[Path], dests: Iterable[Path], kept: range, weight: float) -> int:
    """Write the sentences and the trees that are kept, and return how many lines that are.

    Of weight 2.5 they come twice and thrice in turn. The places are removed.
    """
    number = lines = 0
    with contextlib.ExitStack() as stack:
        sides = [stack.enter_context(open(dest, "wb")) for dest in dests]
        for place in places:
            with open(place, "rb") as file:
                for line in file:
                    if number in kept:
                        i = number - kept.start
                        copies = floor((i + 1) * weight) - floor(i * weight)
                        sentence, _, tree = line.partition(b"\t")
                        sides[0].write((sentence + b"\n") * copies)
                        sides[1].write(tree * copies)
                        lines += copies
                    number += 1
            place.unlink()
    return lines


def linearise(job: Job, text: Text, split: str) -> Stage:
    """Write words and symbols of trees. For training, drop unfit pairs and count the words too."""
    cleaning = job.cleaning(split)
    step = functools.partial(linearise_batch, cleaning)
    return tokens_stage(job, text, step, f"linearising {text.name}", [text.key, cleaning])


def linearise_batch(cleaning: Cleaning | None, pairs: LinePairs) -> Batch:
    """Return sentences with their linearised trees, of sentences with their trees in brackets."""
    kept: list[tuple[str, str]] = []
    dropped, counts = Counts(), Counts()
    for sentence, tree in ((source.decode(), target.decode()) for source, target in pairs):
        symbols = linearise_tree(Tree.fromstring(tree))
        of_sentence = sentence.split()
        flaw = cleaning.flaw(len(of_sentence), len(symbols)) if cleaning else None
        if cleaning and max(map(len, of_sentence)) > MAX_WORD_LENGTH:
            flaw = "word too long"
        if flaw:
            dropped[flaw] += 1
            continue
        counts.update(of_sentence)
        kept.append((sentence, " ".join(symbols)))
    return Batch.of(kept, len(pairs), dropped, counts)
