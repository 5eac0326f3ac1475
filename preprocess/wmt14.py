#!/usr/bin/env python3
"""Make the paper's data (section 5.1) out of the public files of WMT 2014.

    python preprocess/wmt14.py en-de --dest runs/wmt14_en_de
    python preprocess/wmt14.py en-fr --dest runs/wmt14_en_fr

fetches the corpora that wmt14.yaml lists, takes the text out of them, tokenises, cleans, learns
and applies subwords, and has fairseq-preprocess make DEST/data. Interrupted at any moment, the
same command goes on, and ends in the same bytes. DEST/download and DEST/work can be deleted then.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from archive import Broken, extract  # noqa: E402
from corpora import Corpus, Pair, load_pair  # noqa: E402
from download import Download, Unavailable, checksum, fetch, reject  # noqa: E402
from parallel import Workers, run_command, say, start_workers  # noqa: E402
from pipeline import Cleaning, Text, build, examine, versions  # noqa: E402
from stages import Stage, done, locked, stage  # noqa: E402

from aiayn_plugin.errors import TextError  # noqa: E402
from aiayn_plugin.text import SETTINGS_FILE, SUBWORDS, TextSettings  # noqa: E402

TABLE = Path(__file__).with_name("wmt14.yaml")
RECORD = "checksums.json"  # of what was fetched
LOCK = "wmt14.lock"  # marks a directory as ours, locked as long as it is in use
#: Of training pairs, after subwords; the ratio is what WMT 2014's users have in common.
CLEANING = Cleaning(min_tokens=1, max_tokens=250, max_ratio=1.5, subwords=True)


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="wmt14.py", description="Make the paper's data out of the public files of WMT 2014."
    )
    add = parser.add_argument
    add("pair", help="en-de or en-fr, or another pair of the table")
    add("--dest", metavar="DIR", type=Path, required=True,
        help="directory for everything; the data will be in DIR/data")  # fmt: skip
    add("--subword", choices=list(SUBWORDS), help="default: the paper's, bpe for en-de, wordpiece "
        "for en-fr")  # fmt: skip
    add("--vocabulary", metavar="N", type=int, help="pieces to learn, the characters among them "
        "(default: the paper's, 37,000 for en-de, 32,000 for en-fr)")  # fmt: skip
    add("--table", metavar="FILE", type=Path, default=TABLE,
        help="the corpora (default: wmt14.yaml beside this program, which says how it is read)")
    cores = len(os.sched_getaffinity(0))
    add("--workers", type=int, default=cores, help="processes to use (default: all cores)")
    args = parser.parse_args(argv)
    if args.workers < 1 or (args.vocabulary is not None and args.vocabulary < 1):
        parser.error("--workers and --vocabulary must be 1 or more")
    return args


def main(argv: list[str] | None = None) -> int:
    """Prepare the data as the command line says; return the exit status."""
    args = parse_args(argv)
    return run_command("wmt14.py", lambda: prepare(args), "the same command goes on")


# ---- From the table to the data


def prepare(args: argparse.Namespace) -> None:
    """Make DEST/data, from wherever an earlier run got to."""
    pair = load_pair(args.table, args.pair)
    settings = TextSettings(
        source_lang=pair.langs[0],
        target_lang=pair.langs[1],
        merges=0,
        vocabulary=args.vocabulary or pair.vocabulary,
        normalize_punctuation=True,
        subword=args.subword or pair.subword,
        codes=SUBWORDS[args.subword or pair.subword][1],
        cleaning=CLEANING._asdict(),
    )
    settings = replace(settings, versions=versions(settings.subword))
    dest = args.dest.resolve()
    if dest.is_dir() and any(dest.iterdir()) and not (dest / LOCK).exists():
        raise TextError(f"{dest} is there, but not made by wmt14.py; choose another --dest")
    dest.mkdir(parents=True, exist_ok=True)
    with locked(dest / LOCK, f"another wmt14.py is at work in {dest}"):
        with start_workers(args.workers) as workers:
            beside = args.table.parent
            data = finished(pair, dest, beside, settings, workers)
            if data:
                print(f"{args.dest}/data is up to date")
            else:
                texts = read(pair, dest, beside, workers)
                data = finish(texts, dest, settings, workers)
            say(data.result["summary"])
    train = f"fairseq-train {args.dest}/data --user-dir aiayn_plugin --arch aiayn_base"
    print(f"data is in {args.dest}/data; next: {train}")


def finished(
    pair: Pair, dest: Path, beside: Path, settings: TextSettings, workers: Workers
) -> Stage | None:
    """Return dest/data if it is there and of the corpora that the table names; archives and stages
    may be gone."""
    if not (dest / "data").exists():
        return None
    inputs = {}
    for split, split_corpora in pair.splits.items():
        for corpus in split_corpora:
            if corpus.archive is None:
                key = "".join(on_disk(corpus, beside, workers).key)
            elif made_of := _made_of(corpus, dest, pair.langs):
                key = done(dest / "work", f"raw.{corpus.name}", made_of)[1]
            else:
                return None
            inputs[f"{split}.{corpus.name}"] = key
    data = done(dest, "data", _data_made_of(replace(settings, inputs=inputs)))[0]
    missing = [
        name
        for split in pair.splits
        for lang in pair.langs
        for name in (f"{split}.{'-'.join(pair.langs)}.{lang}.{end}" for end in ("bin", "idx"))
        if not (dest / "data" / name).is_file()
    ]
    if data and missing:
        raise TextError(f"{dest}/data lacks {', '.join(missing)}; delete it to have it made again")
    return data


def _data_made_of(settings: TextSettings) -> dict[str, Any]:
    return asdict(replace(settings, versions={}))  # newer libraries do not undo finished data


def finish(
    texts: dict[str, list[Text]], dest: Path, settings: TextSettings, workers: Workers
) -> Stage:
    """Make dest/data of the texts; raise if it is there, of other ones."""
    inputs = {
        f"{split}.{text.name}": "".join(text.key) for split in texts for text in texts[split]
    }
    settings = replace(settings, inputs=inputs)
    made_of = _data_made_of(settings)
    data = dest / "data"
    if data.exists() and not done(dest, "data", made_of)[0]:
        if not (data / SETTINGS_FILE).exists():
            raise TextError(f"{data} is there, but not made by wmt14.py; choose another --dest")
        there = asdict(TextSettings.load(data / SETTINGS_FILE))
        names = made_of.keys() - {"versions", "codes_sha256"}
        differ = ", ".join(sorted(name for name in names if made_of[name] != there[name]))
        advice = "choose another --dest or delete it"
        raise TextError(f"{data} belongs to other settings ({differ}); {advice}")
    make = functools.partial(_make_data, dest / "work", texts, settings, workers)
    return stage(dest, "data", made_of, make)


def _make_data(
    work: Path,
    texts: dict[str, list[Text]],
    settings: TextSettings,
    workers: Workers,
    part: Path,
) -> dict[str, Any]:
    return {"summary": build(work, part, texts, settings, workers)}


def read(pair: Pair, dest: Path, beside: Path, workers: Workers) -> dict[str, list[Text]]:
    """Return the text of each split, fetched and taken out of its archive unless it was before.

    Raises:
        TextError: some of it cannot be had; the message says all that is missing.
    """
    wanted = {
        corpus.archive: None
        for corpus in pair.corpora
        if corpus.archive and not unpacked(corpus, dest, pair.langs)
    }
    ensure_room(list(wanted), dest / "download")
    missing = []
    for archive in wanted:
        try:
            fetch(archive, dest / "download", dest / RECORD)
        except Unavailable as error:
            missing.append(str(error))
    if missing:
        raise TextError("\n".join(missing))
    return {
        split: [
            unpack(corpus, dest, pair.langs)
            if corpus.archive
            else on_disk(corpus, beside, workers)
            for corpus in split_corpora
        ]
        for split, split_corpora in pair.splits.items()
    }


def ensure_room(archives: list[Download], folder: Path) -> None:
    """Raise if the disk cannot even hold what is still to be fetched."""
    folder.mkdir(exist_ok=True)
    needed = 0
    for archive in archives:
        part = folder / f"{archive.name}.part"
        if not (folder / archive.name).exists():
            needed += (archive.size or 0) - (part.stat().st_size if part.exists() else 0)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise TextError(f"{folder}: {needed / 1e9:.1f} GB to fetch, {free / 1e9:.1f} GB free")


def _made_of(corpus: Corpus, dest: Path, langs: tuple[str, str]) -> list[Any] | None:
    """What an unpacked corpus depends on; None if its archive was never seen."""
    assert corpus.archive
    digest = checksum(corpus.archive, dest / RECORD)
    return [digest, corpus.files, langs, corpus.strict] if digest else None


def unpacked(corpus: Corpus, dest: Path, langs: tuple[str, str]) -> Stage | None:
    """Return the corpus taken out of its archive, if it was before."""
    made_of = _made_of(corpus, dest, langs)
    return done(dest / "work", f"raw.{corpus.name}", made_of)[0] if made_of else None


def unpack(corpus: Corpus, dest: Path, langs: tuple[str, str]) -> Text:
    """Return the text of a corpus that is in its archive."""
    assert corpus.archive
    archive = dest / "download" / corpus.archive.name

    def make(part: Path) -> dict[str, Any]:
        say(f"{corpus.name}: taking it out of {archive.name}")
        paths = [part / lang for lang in langs]
        try:
            extract(archive, dict(zip(corpus.files, paths, strict=True)))
        except Broken as error:
            assert corpus.archive
            advice = reject(corpus.archive, dest / "download", dest / RECORD)
            raise TextError(f"{error}; {advice}") from None
        lines = [examine(path, corpus.strict)[0] for path in paths]
        check_lines(corpus, lines)
        return {"lines": lines[0]}

    made_of = _made_of(corpus, dest, langs)
    made = stage(dest / "work", f"raw.{corpus.name}", made_of, make)
    files = made.folder / langs[0], made.folder / langs[1]
    return Text(corpus.name, files, made.result["lines"], (made.key,))


def on_disk(corpus: Corpus, beside: Path, workers: Workers) -> Text:
    """Return the text of a corpus of the user's own."""
    source, target = (beside / Path(file).expanduser() for file in corpus.files)
    examined = workers.pool.map(functools.partial(examine, strict=corpus.strict), (source, target))
    lines, digests = zip(*examined, strict=True)
    check_lines(corpus, lines)
    return Text(corpus.name, (source, target), lines[0], digests)


def check_lines(corpus: Corpus, lines: list[int] | tuple[int, ...]) -> None:
    if lines[0] != lines[1]:
        raise TextError(
            f"{corpus.name}: {corpus.files[0]} has {lines[0]:,} lines, but {corpus.files[1]} has "
            f"{lines[1]:,}: each line of one must be the translation of that line of the other"
        )


if __name__ == "__main__":
    sys.exit(main())
