"""The raw texts of a language pair: fetched, taken out of their archives, checked.

Under the directory `dest` of a run, download/ has the archives, work/raw.NAME the text of corpus
NAME, and downloads.json the checksum of each archive.
"""

import shutil
from pathlib import Path
from typing import Any

from aiayn_plugin.errors import InputError

from .archive import HEADERS, TRUSTED_HEADERS, BrokenArchive, extract
from .console import say
from .download import Download, Unavailable, checksum, fetch, reject
from .parallel import Files, Workers
from .stages import find_stage, make_stage, stage_key
from .table import Corpus, LanguagePair
from .tokens import Text, load_text

RECORD = "downloads.json"
#: Its name in older versions: that of the list of the data's files, which has another format.
OLD_RECORD = "checksums.json"


def read_texts(pair: LanguagePair, dest: Path, workers: Workers) -> dict[str, list[Text]]:
    """Return the texts of each split. Fetch and unpack the archives if earlier runs did not.

    Raises InputError if a text is unfit or an archive cannot be fetched. One message names all
    archives that cannot be fetched.
    """
    needed = dict.fromkeys(
        corpus.archive
        for corpus in pair.corpora
        if corpus.archive
        and not find_stage(dest / "work", f"raw.{corpus.name}", _made_of(pair, corpus, dest))
    )
    _ensure_room(list(needed), dest / "download")
    problems = []
    for archive in needed:
        try:
            fetch(archive, dest / "download", dest / RECORD)
        except Unavailable as error:
            problems.append(str(error))
    if problems:
        raise InputError("\n".join(problems))
    return {
        split: [
            _unpack(pair, corpus, dest, workers)
            if corpus.archive
            else _on_disk(pair, corpus, workers)
            for corpus in corpora
        ]
        for split, corpora in pair.splits.items()
    }


def text_key(pair: LanguagePair, corpus: Corpus, dest: Path, workers: Workers) -> str:
    """Return the key of the text of a corpus, or "" if its archive was never fetched.

    The archive and the text that was taken out of it may be deleted.
    """
    if corpus.archive is None:
        return "".join(_on_disk(pair, corpus, workers).key)
    made_of = _made_of(pair, corpus, dest)
    return stage_key(f"raw.{corpus.name}", made_of) if made_of else ""


def rename_record(dest: Path) -> None:
    """Give the checksums that an older version recorded the name that is read today."""
    if (dest / OLD_RECORD).is_file() and not (dest / RECORD).exists():
        (dest / OLD_RECORD).rename(dest / RECORD)


def _ensure_room(archives: list[Download], folder: Path) -> None:
    """Raise InputError if the disk has no room for the bytes still to be fetched."""
    folder.mkdir(exist_ok=True)
    needed = 0
    for archive in archives:
        part = folder / f"{archive.name}.part"
        if not (folder / archive.name).exists():
            needed += (archive.size or 0) - (part.stat().st_size if part.exists() else 0)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(f"{folder}: {needed / 1e9:.1f} GB to fetch, {free / 1e9:.1f} GB free")


def _made_of(pair: LanguagePair, corpus: Corpus, dest: Path) -> list[Any] | None:
    """Return what the stage of a corpus depends on, or None if its archive was never fetched."""
    assert corpus.archive
    digest = checksum(corpus.archive, dest / RECORD)
    return [digest, corpus.files, pair.langs, corpus.strict] if digest else None


def _unpack(pair: LanguagePair, corpus: Corpus, dest: Path, workers: Workers) -> Text:
    """Return the text of a corpus in an archive, taken out of it if it was not before."""
    archive, (source, target) = corpus.archive, pair.langs
    assert archive

    def make(folder: Path) -> dict[str, Any]:
        say(f"{corpus.name}: taking it out of {archive.name}")
        files = folder / source, folder / target
        try:
            extract(
                dest / "download" / archive.name,
                dict(zip(corpus.files, files, strict=True)),
                TRUSTED_HEADERS if archive.sha256 else HEADERS,
            )
        except BrokenArchive as error:
            advice = reject(archive, dest / "download", dest / RECORD)
            raise InputError(f"{error}; {advice}") from None
        return {"lines": _load(corpus, files, workers).lines}

    stage = make_stage(dest / "work", f"raw.{corpus.name}", _made_of(pair, corpus, dest), make)
    files = stage.folder / source, stage.folder / target
    return Text(corpus.name, files, stage.result["lines"], (stage.key,))


def _on_disk(pair: LanguagePair, corpus: Corpus, workers: Workers) -> Text:
    """Return the text of a corpus of the user. Its files stay where they are."""
    source, target = (pair.folder / Path(file).expanduser() for file in corpus.files)
    return _load(corpus, (source, target), workers)


def _load(corpus: Corpus, files: Files, workers: Workers) -> Text:
    names = f"{corpus.name}: {corpus.files[0]}", corpus.files[1]
    return load_text(corpus.name, files, workers, corpus.strict, names)
