"""A table of corpora, such as wmt14.yaml: the entries of one language pair."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ..errors import InputError
from ..text.subwords import SUBWORDS
from .download import Download

#: The corpora that the paper trained and tested on (§5.1).
WMT14 = Path(__file__).with_name("wmt14.yaml")


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

    Paths of files on disk are relative to the folder of the table.
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

    Raises InputError if the table is malformed or lacks the pair, and OSError if it cannot be read.
    """
    try:
        content = yaml.safe_load(table.read_bytes())
        pairs, archives = dict(content["pairs"] or {}), dict(content["archives"] or {})
    except (yaml.YAMLError, TypeError, KeyError, ValueError, RecursionError) as error:
        problem = " ".join(str(error).split())
        raise InputError(f"{table}: not a table of corpora: {problem}") from None
    if name not in pairs:
        known = ", ".join(map(str, pairs)) or "none"
        raise InputError(f"{table} has no pair {name!r}; pairs: {known}")
    source, _, target = name.partition("-")
    if source == target or not re.fullmatch(r"\w+-\w+", name):
        raise InputError(
            f"{table}: {name}: name a pair by two different language codes, such as en-de"
        )
    try:
        pair = _parse_pair(table.parent, name, pairs[name], archives)
        flaw = next(_find_flaws(pair), None)
    except KeyError as error:
        raise InputError(f"{table}: {name} or its archives lack {error}") from None
    except (TypeError, AttributeError) as error:
        raise InputError(f"{table}: {name} or its archives: {error}") from None
    if flaw:
        raise InputError(f"{table}: {name}: {flaw}")
    return pair


def _parse_pair(folder: Path, name: str, entry: Any, archives: Any) -> LanguagePair:
    source, _, target = name.partition("-")
    downloads = {
        file: Download(
            _check_file_name(file),
            tuple(facts["urls"]),
            {name: facts[name] for name in ("sha256", "md5") if name in facts},
            facts.get("size"),
        )
        for file, facts in archives.items()
    }
    splits = {
        split: [
            Corpus(
                _check_file_name(corpus["name"]),
                downloads[corpus["archive"]] if "archive" in corpus else None,
                (str(corpus[source]), str(corpus[target])),
                strict=split != "train",
            )
            for corpus in entry[split]
        ]
        for split in ("train", "valid", "test")
    }
    return LanguagePair(folder, (source, target), splits, entry["subword"], entry["vocabulary"])


def _find_flaws(pair: LanguagePair) -> Iterator[str]:
    names = [corpus.name for corpus in pair.corpora]
    if duplicates := {name for name in names if names.count(name) > 1}:
        yield f"duplicate corpus names: {', '.join(sorted(duplicates))}"
    if pair.subword not in SUBWORDS:
        yield f"subword is {pair.subword!r}, not one of {', '.join(SUBWORDS)}"
    if not isinstance(pair.vocabulary, int) or pair.vocabulary < 1:
        yield f"vocabulary is {pair.vocabulary!r}, not a number of subwords"
    for archive in filter(None, (corpus.archive for corpus in pair.corpora)):
        if not all(re.match(r"(https?|ftp|file)://", url) for url in archive.urls):
            yield f"urls of {archive.name} must be a list of http, https, ftp or file URLs"
        if not isinstance(archive.size, int | None):
            yield f"size of {archive.name} is {archive.size!r}, not a number of bytes"
        if not archive.checksums:
            yield f"{archive.name} has no checksum: give its sha256 (sha256sum {archive.name})"
        for digest in archive.checksums.values():
            if not re.fullmatch("[0-9a-f]+", digest):
                yield f"{archive.name} has checksum {digest!r}, which is not lower-case hexadecimal"


def _check_file_name(name: str) -> str:
    """Return the name. Raises InputError if it might point outside its directory."""
    if not name or Path(name).name != name or name.startswith("."):
        raise InputError(f"{name!r} is not a file name")
    return name
