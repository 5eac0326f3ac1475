"""The table of corpora: what wmt14.yaml, or a table of one's own, says about a language pair."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import yaml
from download import Download

from aiayn_plugin.errors import TextError
from aiayn_plugin.text import SUBWORDS


class Corpus(NamedTuple):
    """A parallel text: members of an archive, or without one files on disk, source first. Where it
    is strict, for a score, a line that is not UTF-8 is an error, not one to drop."""

    name: str
    archive: Download | None
    files: tuple[str, str]
    strict: bool


class Pair(NamedTuple):
    """The corpora of a language pair, by split, and its subwords where none are asked for."""

    langs: tuple[str, str]
    splits: dict[str, list[Corpus]]
    subword: str
    vocabulary: int

    @property
    def corpora(self) -> Iterator[Corpus]:
        """Those of all splits."""
        return chain.from_iterable(self.splits.values())


def load_pair(table: Path, name: str) -> Pair:
    """Return one language pair of a table.

    Raises:
        TextError: the table is not understood, or has no such pair.
        OSError: the table cannot be read.
    """
    try:
        content = yaml.safe_load(table.read_bytes())
        pairs, archives = content["pairs"], content["archives"]
    except (yaml.YAMLError, TypeError, KeyError) as error:
        problem = " ".join(str(error).split())
        raise TextError(f"{table}: not a table of corpora: {problem}") from None
    if name not in (pairs or ()):
        raise TextError(f"{table} has no pair {name!r}, only {', '.join(pairs or ('none',))}")
    source, _, target = name.partition("-")
    try:
        downloads = {
            file: Download(_plain(file), tuple(known["addresses"]), known.get("size"),
                           known.get("sha256"), known.get("md5"))
            for file, known in archives.items()
        }  # fmt: skip
        splits = {
            split: [
                Corpus(_plain(corpus["name"]),
                       downloads[corpus["archive"]] if "archive" in corpus else None,
                       (str(corpus[source]), str(corpus[target])), split != "train")
                for corpus in pairs[name][split]
            ]
            for split in ("train", "valid", "test")
        }  # fmt: skip
        pair = Pair((source, target), splits, pairs[name]["subword"], pairs[name]["vocabulary"])
    except KeyError as error:
        raise TextError(f"{table}: {name} or its archives lack {error}") from None
    except (TypeError, AttributeError) as error:
        raise TextError(f"{table}: {name} or its archives: {error}") from None
    for problem in flaws(pair):
        raise TextError(f"{table}: {name}: {problem}")
    return pair


def flaws(pair: Pair) -> Iterator[str]:
    """Yield what cannot be in a pair."""
    names = [corpus.name for corpus in pair.corpora]
    if twice := {name for name in names if names.count(name) > 1}:
        yield f"two corpora are called {', '.join(sorted(twice))}"
    if pair.subword not in SUBWORDS:
        yield f"subword is {pair.subword!r}, not one of {', '.join(SUBWORDS)}"
    if not isinstance(pair.vocabulary, int) or pair.vocabulary < 1:
        yield f"vocabulary is {pair.vocabulary!r}, not a number of pieces"
    for archive in filter(None, (corpus.archive for corpus in pair.corpora)):
        if not all(re.match(r"(https?|ftp|file)://", address) for address in archive.addresses):
            yield f"addresses of {archive.name} is not a list of addresses"
        if not isinstance(archive.size, int | None):
            yield f"size of {archive.name} is {archive.size!r}, not a number of bytes"


def _plain(name: str) -> str:
    if Path(name).name != name or name.startswith("."):
        raise TextError(f"{name!r} is no plain name of a file")
    return name
