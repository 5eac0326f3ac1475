"""From files of bracketed trees to sentences and linearised trees (§6.3)."""

import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from math import floor
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..parsing.linearisation import linearise_tree
from ..parsing.recombination import Recombiner
from ..parsing.trees import (
    clean_tree,
    format_tree,
    map_to_wsj,
    read_trees,
    tree_from_string,
    tree_words,
)
from ..text.lines import read_lines
from .console import progress, say
from .parallel import Files
from .stages import Stage, make_stage
from .tokens import Cleaning, Job, Text, transform
from .tree_files import TreeSet


def read_tree_set(job: Job, trees: TreeSet) -> Text:
    """Return a parallel text: the words of each sentence, and its cleaned tree on one line.

    Raises InputError, with file and line, if a tree is malformed, or if no tree is left.
    """

    def make(folder: Path) -> dict[str, Any]:
        outputs = [folder / f"{number}.part" for number in range(len(trees.files))]
        read = functools.partial(_read_file, wsj_labels=trees.wsj_labels)
        total, changes = 0, Counter[str]()
        with progress(f"reading the trees of {trees.name}", len(outputs), "files") as add:
            for number, changed in job.workers.pool.map(read, trees.files, outputs):
                total += number
                changes += changed
                add(1)
        kept = range(total)[trees.kept]
        lines = _write_kept(outputs, job.files(folder), kept, trees.weight)
        if not lines:
            why = ""
            if kept:
                why = f"; a weight of {trees.weight:g} leaves none: raise it"
            elif trees.kept != slice(None):
                why = "; --hold-out leaves none for training"
            raise InputError(f"{trees.name}: found {total:,} trees in {len(outputs):,} files{why}")
        if trees.recombined:
            lines = _recombine(*job.files(folder), trees.recombined)
        return {"lines": lines, "changes": changes}

    stage = make_stage(job.work, f"trees.{trees.name}", job.settings.inputs[trees.name], make)
    for change, number in Counter(stage.result["changes"]).most_common():
        say(f"{trees.name}: {number:,} {change}")
    return Text(trees.name, job.files(stage.folder), stage.result["lines"], (stage.key,))


def _read_file(path: Path, output: Path, wsj_labels: bool) -> tuple[int, Counter[str]]:
    """Write the words and the tree of each sentence of a file.

    Returns the number of sentences and the changes of their labels.
    """
    number, changes = 0, Counter[str]()
    with open(output, "w", encoding="utf-8", newline="\n") as file:
        for tree in map(clean_tree, read_trees(path)):
            if tree is not None and wsj_labels:
                tree = map_to_wsj(tree, changes)
            if tree is not None:
                file.write(f"{' '.join(tree_words(tree))}\t{format_tree(tree)}\n")
                number += 1
    return number, changes


def _write_kept(inputs: list[Path], dests: Files, kept: range, weight: float) -> int:
    """Write the sentences and trees in `kept`, remove the inputs, return the number of lines.

    With weight 2.5, they are written two and three times alternately.
    """
    lines = 0
    with open(dests[0], "wb") as sentences, open(dests[1], "wb") as trees:
        for number, line in enumerate(_take_lines(inputs)):
            if number in kept:
                i = number - kept.start
                copies = floor((i + 1) * weight) - floor(i * weight)
                sentence, _, tree = line.partition(b"\t")
                sentences.write((sentence + b"\n") * copies)
                trees.write(tree * copies)
                lines += copies
    return lines


def _take_lines(paths: Iterable[Path]) -> Iterator[bytes]:
    """Yield the lines of files, and remove each file after its last line."""
    for path in paths:
        with open(path, "rb") as file:
            yield from file
        path.unlink()


def _recombine(source: Path, target: Path, copies: int) -> int:
    """Replace the sentences and trees of both files with recombined ones; return their number."""
    trees = [tree_from_string(line) for line in read_lines(target)]
    recombiner = Recombiner(trees)
    with (
        open(source, "w", encoding="utf-8", newline="\n") as words,
        open(target, "w", encoding="utf-8", newline="\n") as brackets,
        progress("recombining trees", copies * len(trees), "trees") as add,
    ):
        for _ in range(copies):
            for tree in map(recombiner.recombine, trees):
                words.write(f"{' '.join(tree_words(tree))}\n")
                brackets.write(f"{format_tree(tree)}\n")
                add(1)
    return copies * len(trees)


def linearise(job: Job, text: Text, split: str) -> Stage:
    """Write words and linearised trees. For training, also apply the limits."""
    cleaning = job.cleaning(split)
    step = functools.partial(linearise_pair, cleaning)
    name, activity = f"tokenised.{text.name}", f"linearising {text.name}"
    inputs = [text.key, cleaning]
    return transform(job, name, inputs, step, [text.files], text.lines, activity)


def linearise_pair(
    cleaning: Cleaning | None, sentence: bytes, tree: bytes
) -> tuple[str, str] | str:
    """Return a sentence with its linearised tree or, with `cleaning`, why the pair is dropped."""
    words, symbols = sentence.decode(), linearise_tree(tree_from_string(tree.decode()))
    if cleaning and (flaw := cleaning.find_flaw_in_words(words.split(), symbols)):
        return flaw
    return words, " ".join(symbols)
