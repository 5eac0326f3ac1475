"""Raw parallel texts, the limits on training pairs, and the step from raw text to tokens."""

import contextlib
import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError
from ..text.lines import MAX_WORD_LENGTH, decode_line
from ..text.settings import TextSettings
from ..text.tokenizer import Tokenizer
from .parallel import Counts, Files, Langs, Step, Workers, map_pairs, transform_batch
from .stages import Stage, make_stage

#: The words or subwords of a stage's text, one per line: side, word, count.
COUNTS_FILE = "counts.txt"

_tokenizer = functools.cache(Tokenizer)  # one for each process


class Text(NamedTuple):
    """A parallel text on disk: its name, a file for each language, and the number of lines of each.

    The key changes with the content: it is the SHA-256 of both files, or the key of a stage.
    """

    name: str
    files: Files
    lines: int
    key: tuple[str, ...]


class Cleaning(NamedTuple):
    """Limits on both lengths of a training pair, in words or, with `subwords`, in subwords."""

    min_tokens: int = 1
    max_tokens: int = 250
    max_ratio: float = 9.0
    subwords: bool = False

    def find_flaw_in_words(self, source: Sequence[str], target: Sequence[str]) -> str | None:
        """Return why a pair of tokenised sentences is dropped, or None if it is kept so far."""
        if max(map(len, (*source, *target)), default=0) > MAX_WORD_LENGTH:
            return "word too long"  # not text, and learning its subwords would take minutes
        return None if self.subwords else self.find_flaw(len(source), len(target))

    def find_flaw(self, source: int, target: int) -> str | None:
        """Return why a pair of these lengths is dropped, or None if it is kept."""
        shorter, longer = sorted((source, target))
        if shorter < self.min_tokens:
            return "too short" if shorter else "empty"
        if longer > self.max_tokens:
            return "too long"
        return "too different in length" if longer > self.max_ratio * shorter else None


class Job(NamedTuple):
    """The context of every step: the directory of the stages, the settings and the workers."""

    work: Path
    settings: TextSettings
    workers: Workers

    def cleaning(self, split: str) -> Cleaning | None:
        """Return the limits on the pairs of a split; None except for training pairs."""
        limits = Cleaning(**self.settings.cleaning)  # type: ignore[arg-type]
        return limits if split == "train" else None

    def files(self, folder: Path) -> Files:
        """Return the paths of the two files of a stage."""
        source, target = (folder / f"text.{lang}" for lang in self.settings.languages)
        return source, target


def load_text(
    name: str, files: Files, workers: Workers, strict: bool = True, shown: Any = None
) -> Text:
    """Return the text of two raw files. `shown` are their names in errors (default: their paths).

    Raises InputError if the numbers of lines differ, a file is empty or, if strict, a line is not
    UTF-8, and OSError if a file cannot be read.
    """
    source, target = shown or files
    examine = functools.partial(_examine, strict=strict)
    lines, digests = zip(*workers.pool.map(examine, files, (source, target)), strict=True)
    if lines[0] != lines[1]:
        raise InputError(
            f"{source} has {lines[0]:,} lines, but {target} has {lines[1]:,}: "
            "each line must be the translation of the same line of the other file"
        )
    return Text(name, files, lines[0], digests)


def _examine(path: Path, shown: str | Path, strict: bool) -> tuple[int, str]:
    """Return the number of lines and the SHA-256 of a file, called `shown` in errors."""
    digest, number = hashlib.sha256(), 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            digest.update(line)
            if strict:
                decode_line(line, number, shown)
    if not number:
        raise InputError(f"{shown} is empty")
    return number, digest.hexdigest()


def tokenise(job: Job, text: Text, split: str) -> Stage:
    """Write the tokens of a text. For training, also clean the pairs."""
    settings, cleaning = job.settings, job.cleaning(split)
    options = settings.normalize_punctuation, settings.tokenizer
    step = functools.partial(tokenise_pair, settings.languages, options, cleaning)
    versions = [settings.versions[library] for library in ("sacremoses", "regex")]
    inputs = [text.key, settings.languages, options, cleaning, MAX_WORD_LENGTH, versions]
    name, activity = f"tokenised.{text.name}", f"tokenising {text.name}"
    return transform(job, name, inputs, step, [text.files], text.lines, activity)


def transform(
    job: Job,
    name: str,
    inputs: list[Any],
    step: Step,
    sources: Sequence[Files],
    total: int,
    activity: str,
) -> Stage:
    """Apply a step to the `total` pairs of the sources; write the resulting text and word counts.

    Raises InputError as `map_pairs` does.
    """

    def make(folder: Path) -> dict[str, Any]:
        counts, dropped = [Counts(), Counts()], Counts()
        with contextlib.ExitStack() as stack:
            outputs = [stack.enter_context(open(file, "wb")) for file in job.files(folder)]
            on_batch = functools.partial(transform_batch, step)
            for batch in map_pairs(job.workers, on_batch, sources, total, activity):
                for side in (0, 1):
                    outputs[side].write(batch.sides[side])
                    counts[side].update(batch.counts[side])
                dropped.update(batch.dropped)
        with open(folder / COUNTS_FILE, "w", encoding="utf-8", newline="\n") as file:
            for side, words in enumerate(counts):
                file.writelines(f"{side} {word} {count}\n" for word, count in words.items())
        return {"pairs": total - dropped.total(), "dropped": dropped}

    return make_stage(job.work, name, [*inputs, COUNTS_FILE], make)


def read_counts(folder: Path) -> list[Counts]:
    """Return the count of each word in the text of a stage, by side."""
    counts = [Counts(), Counts()]
    with open(folder / COUNTS_FILE, encoding="utf-8", newline="\n") as file:
        for line in file:
            side, word, count = line.split()
            counts[int(side)][word] = int(count)
    return counts


def tokenise_pair(
    langs: Langs, options: tuple[bool, str], cleaning: Cleaning | None, source: bytes, target: bytes
) -> tuple[str, str] | str:
    """Return the tokens of a pair or, with `cleaning`, why it is dropped.

    options: the arguments of Tokenizer after the language.
    """
    try:
        lines = source.decode(), target.decode()
    except UnicodeDecodeError:
        if not cleaning:  # a test set must keep all its lines; load_text has checked them
            raise
        return "not UTF-8"
    source_tokens, target_tokens = (
        _tokenizer(lang, *options).tokenize(line) for lang, line in zip(langs, lines, strict=True)
    )
    if cleaning and (flaw := cleaning.find_flaw_in_words(source_tokens, target_tokens)):
        return flaw
    return " ".join(source_tokens), " ".join(target_tokens)
