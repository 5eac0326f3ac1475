"""The raw texts of a language pair: fetched, extracted from their archives, and checked.

Under the directory `dest` of a run, download/ contains the archives, and work/raw.NAME the text of
corpus NAME.
"""

import os
import shutil
from pathlib import Path
from typing import Any

from ..errors import InputError
from .archive import extract
from .console import say
from .download import Download, DownloadError, fetch
from .parallel import Files, Workers
from .stages import find_stage, make_stage, stage_key
from .table import Corpus, LanguagePair
from .tokens import Text, load_text


def read_texts(pair: LanguagePair, dest: Path, workers: Workers) -> dict[str, list[Text]]:
    """Return the texts of each split; fetch and unpack archives if earlier runs did not.

    Raises InputError if a text is invalid or archives cannot be fetched, with a line for each.
    """
    needed = {
        corpus.archive.name: corpus.archive
        for corpus in pair.corpora
        if corpus.archive and not find_stage(dest / "work", *_identify(pair, corpus))
    }
    _check_disk_space(list(needed.values()), dest / "download")
    problems = []
    for archive in needed.values():
        try:
            fetch(archive, dest / "download")
        except DownloadError as error:
            problems.append(str(error))
    if problems:
        raise InputError("\n".join(problems))
    return {
        split: [
            _unpack(pair, corpus, dest, workers)
            if corpus.archive
            else _read_from_disk(pair, corpus, workers)
            for corpus in corpora
        ]
        for split, corpora in pair.splits.items()
    }


def find_inputs(pair: LanguagePair, workers: Workers) -> dict[str, str]:
    """Return the key of the text of each corpus.

    Neither the archives nor the extracted texts are needed.
    """
    return {
        f"{split}.{corpus.name}": stage_key(*_identify(pair, corpus))
        if corpus.archive
        else "".join(_read_from_disk(pair, corpus, workers).key)
        for split, corpora in pair.splits.items()
        for corpus in corpora
    }


def _check_disk_space(archives: list[Download], folder: Path) -> None:
    """Raise InputError if the disk lacks space for the archives still to be downloaded."""
    folder.mkdir(exist_ok=True)
    missing = [archive for archive in archives if not (folder / archive.name).exists()]
    partial = [folder / f"{archive.name}.part" for archive in missing]
    needed = sum(archive.size or 0 for archive in missing)
    needed -= sum(path.stat().st_size for path in partial if path.exists())
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"not enough disk space in {folder}: {needed / 1e9:.1f} GB to download, "
            f"{free / 1e9:.1f} GB free"
        )


def _identify(pair: LanguagePair, corpus: Corpus) -> tuple[str, list[Any]]:
    """Return the name and the inputs of the stage that extracts a corpus from its archive."""
    assert corpus.archive
    inputs = [corpus.archive.checksums, corpus.files, pair.langs, corpus.strict]
    return f"raw.{corpus.name}", inputs


def _unpack(pair: LanguagePair, corpus: Corpus, dest: Path, workers: Workers) -> Text:
    """Return the text of a corpus in an archive, extracted unless an earlier run did so."""
    archive, (source, target) = corpus.archive, pair.langs
    assert archive

    def make(folder: Path) -> dict[str, Any]:
        say(f"{corpus.name}: extracting it from {archive.name}")
        files = folder / source, folder / target
        extract(dest / "download" / archive.name, dict(zip(corpus.files, files, strict=True)))
        return {"lines": _load(corpus, files, workers).lines}

    stage = make_stage(dest / "work", *_identify(pair, corpus), make)
    files = stage.folder / source, stage.folder / target
    return Text(corpus.name, files, stage.result["lines"], (stage.key,))


def _read_from_disk(pair: LanguagePair, corpus: Corpus, workers: Workers) -> Text:
    """Return the text of a user's own corpus, whose files remain in place."""
    source, target = (pair.folder / os.path.expanduser(file) for file in corpus.files)
    return _load(corpus, (source, target), workers)


def _load(corpus: Corpus, files: Files, workers: Workers) -> Text:
    names = f"{corpus.name}: {corpus.files[0]}", corpus.files[1]
    return load_text(corpus.name, files, workers, corpus.strict, names)
