"""A table of corpora: the part of wmt14.yaml, or of another table, about one language pair."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import yaml

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.subwords import SUBWORDS

from .download import Download


class Corpus(NamedTuple):
    """A parallel text: two members of an archive or, without one, two files on disk, source first.

    In a strict corpus a line that is not UTF-8 is an error; elsewhere its pair is dropped. Test
    sets are strict, because a missing line would change the score.
    """

    name: str
    archive: Download | None
    files: tuple[str, str]
    strict: bool


class LanguagePair(NamedTuple):
    """The corpora of a language pair by split, and its default kind and number of subwords.

    Paths of files on disk start at the folder, which holds the table.
    """

    folder: Path
    langs: tuple[str, str]
    splits: dict[str, list[Corpus]]
    subword: str
    vocabulary: int

    @property
    def corpora(self) -> Iterator[Corpus]:
        """The corpora of all splits."""
        return chain.from_iterable(self.splits.values())


def load_pair(table: Path, name: str) -> LanguagePair:
    """Return one language pair of a table.

    Raises InputError if the table is malformed or has no such pair, and OSError if it cannot be
    read.
    """
    try:
        content = yaml.safe_load(table.read_bytes())
        pairs, archives = content["pairs"], content["archives"]
    except (yaml.YAMLError, TypeError, KeyError) as error:
        problem = " ".join(str(error).split())
        raise InputError(f"{table}: not a table of corpora: {problem}") from None
    if name not in (pairs or ()):
        raise InputError(f"{table} has no pair {name!r}, only {', '.join(pairs or ('none',))}")
    source, _, target = name.partition("-")
    try:
        downloads = {
            file: Download(
                _plain(file),
                tuple(facts["addresses"]),
                facts.get("size"),
                facts.get("sha256"),
                facts.get("md5"),
            )
            for file, facts in archives.items()
        }
        splits = {
            split: [
                Corpus(
                    _plain(corpus["name"]),
                    downloads[corpus["archive"]] if "archive" in corpus else None,
                    (str(corpus[source]), str(corpus[target])),
                    split != "train",
                )
                for corpus in pairs[name][split]
            ]
            for split in ("train", "valid", "test")
        }
        pair = LanguagePair(
            table.parent,
            (source, target),
            splits,
            pairs[name]["subword"],
            pairs[name]["vocabulary"],
        )
    except KeyError as error:
        raise InputError(f"{table}: {name} or its archives lack {error}") from None
    except (TypeError, AttributeError) as error:
        raise InputError(f"{table}: {name} or its archives: {error}") from None
    for flaw in _flaws(pair):
        raise InputError(f"{table}: {name}: {flaw}")
    return pair


def _flaws(pair: LanguagePair) -> Iterator[str]:
    """Yield a message for each value that makes no sense."""
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
    """Return the name. Raises InputError if it could lead out of the directory."""
    if Path(name).name != name or name.startswith("."):
        raise InputError(f"{name!r} is no plain name of a file")
    return name
