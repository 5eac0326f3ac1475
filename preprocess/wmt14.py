#!/usr/bin/env python3
"""Make the paper's data (section 5.1) out of the public files of WMT 2014.

    python preprocess/wmt14.py en-de --dest runs/wmt14_en_de
    python preprocess/wmt14.py en-fr --dest runs/wmt14_en_fr

fetches the corpora that wmt14.yaml lists and takes the text out of them. Then it tokenises, cleans,
learns and applies subwords, and makes fairseq's binary files. The data is in DEST/data. A run may
be interrupted at any moment: the same command goes on and ends in the same bytes. After the last
run, DEST/download and DEST/work may be deleted.
"""

import argparse
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from corpus.build import advice_on, build, differing_settings, missing_binaries, versions
from corpus.check import add_check, check_quickly
from corpus.console import add_tokenizer, add_workers, run_command, say, show_next_step
from corpus.parallel import start_workers
from corpus.sources import read_texts, rename_record, text_key
from corpus.stages import Stage, find_stage, locked, make_stage
from corpus.table import LanguagePair, load_pair
from corpus.tokens import Cleaning, Job, Text

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.settings import SETTINGS_FILE, TextSettings
from aiayn_plugin.text.subwords import SUBWORDS

TABLE = Path(__file__).with_name("wmt14.yaml")
#: This file marks a directory as made by wmt14.py. A run in progress locks it.
LOCK = "wmt14.lock"
ADVICE = "choose another --dest or delete it"
#: The limits count subwords. Most systems of WMT 2014 use this ratio.
CLEANING = Cleaning(min_tokens=1, max_tokens=250, max_ratio=1.5, subwords=True)


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(
        prog="wmt14.py", description="Make the paper's data out of the public files of WMT 2014."
    )
    add = parser.add_argument
    add("pair", help="en-de or en-fr, or another pair of the table")
    add(
        "--dest",
        metavar="DIR",
        type=Path,
        required=True,
        help="directory for all files; the data will be in DIR/data",
    )
    add(
        "--subword",
        choices=list(SUBWORDS),
        help="kind of subwords (default: the paper's, bpe for en-de, wordpiece for en-fr)",
    )
    add(
        "--vocabulary",
        metavar="N",
        type=int,
        help="number of pieces to learn, including the "
        "characters (default: the paper's, 37,000 for en-de, 32,000 for en-fr)",
    )
    add(
        "--table",
        metavar="FILE",
        type=Path,
        default=TABLE,
        help="table of the corpora (default: "
        "wmt14.yaml beside this program, which explains its own format)",
    )
    add_tokenizer(parser)
    add_workers(parser)
    add_check(parser)
    args = parser.parse_args(argv)
    if args.workers < 1 or (args.vocabulary is not None and args.vocabulary < 1):
        parser.error("--workers and --vocabulary must be 1 or more")
    return args


def main(argv: list[str] | None = None) -> int:
    """Prepare the data as the command line says, and return the exit status."""
    args = parse_args(argv)
    return run_command("wmt14.py", lambda: prepare(args), "the same command goes on")


def prepare(args: argparse.Namespace) -> None:
    """Make DEST/data, and use whatever an earlier run has finished."""
    pair = load_pair(args.table, args.pair)
    subword = args.subword or pair.subword
    settings = TextSettings(
        *pair.langs,
        merges=0,
        vocabulary=args.vocabulary or pair.vocabulary,
        normalize_punctuation=True,
        tokenizer=args.tokenizer,
        subword=subword,
        codes=SUBWORDS[subword][1],
        cleaning=CLEANING._asdict(),
        versions=versions(subword),
    )
    dest = args.dest.resolve()
    if dest.is_dir() and any(dest.iterdir()) and not (dest / LOCK).exists():
        raise InputError(f"{dest} exists, but was not made by wmt14.py; choose another --dest")
    dest.mkdir(parents=True, exist_ok=True)
    with locked(dest / LOCK, f"another wmt14.py is at work in {dest}"):
        rename_record(dest)
        with start_workers(args.workers) as workers:
            job = Job(dest / "work", settings, workers)
            data = find_data(pair, dest, job)
            if data:
                print(f"{args.dest}/data is up to date")
            else:
                refuse_others(dest / "data", settings)  # before gigabytes are fetched
                data = make_data(read_texts(pair, dest, workers), dest, job)
            say(data.result["summary"])
    show_next_step(f"{args.dest}/data")


def find_data(pair: LanguagePair, dest: Path, job: Job) -> Stage | None:
    """Return dest/data if it was made of these corpora with these settings, else None.

    It needs neither the archives nor the stages in dest/work, which may be deleted.

    Raises InputError if the data lacks a file, or if one has another size than it had.
    """
    if not (dest / "data").exists():
        return None
    inputs = {
        f"{split}.{corpus.name}": text_key(pair, corpus, dest, job.workers)
        for split, corpora in pair.splits.items()
        for corpus in corpora
    }
    if not all(inputs.values()):
        return None
    data = find_stage(dest, "data", _made_of(replace(job.settings, inputs=inputs)))
    missing = missing_binaries(dest / "data", pair.splits, pair.langs)
    if data and missing:
        raise InputError(f"{dest}/data lacks {', '.join(missing)}; delete it to have it made again")
    if data:
        check_quickly(dest / "data")
    return data


def refuse_others(data: Path, wanted: TextSettings) -> None:
    """Raise InputError if the directory `data` was made by others or with other settings.

    Its inputs count only if `wanted` has them. They are known when the texts are.
    """
    if not data.exists():
        return
    if not (data / SETTINGS_FILE).exists():
        raise InputError(f"{data} exists, but was not made by wmt14.py; choose another --dest")
    existing = TextSettings.load(data / SETTINGS_FILE)
    wanted = replace(wanted, inputs=wanted.inputs or existing.inputs)
    if names := differing_settings(existing, wanted):
        raise InputError(
            f"{data} belongs to other settings ({', '.join(names)}); "
            f"{advice_on(names, existing)}{ADVICE}"
        )


def make_data(texts: dict[str, list[Text]], dest: Path, job: Job) -> Stage:
    """Return dest/data, made of the texts.

    Raises InputError if it exists and was made of other texts or with other settings.
    """
    inputs = {f"{split}.{text.name}": "".join(text.key) for split in texts for text in texts[split]}
    job = job._replace(settings=replace(job.settings, inputs=inputs))
    made_of = _made_of(job.settings)
    data = dest / "data"
    if not find_stage(dest, "data", made_of):
        refuse_others(data, job.settings)
        if data.exists():
            raise InputError(f"{data} lacks the record of its making; {ADVICE}")
    return make_stage(dest, "data", made_of, lambda folder: {"summary": build(job, folder, texts)})


def _made_of(settings: TextSettings) -> dict[str, Any]:
    """Return what the data depends on. A newer library does not undo finished data."""
    return asdict(replace(settings, versions={}))


if __name__ == "__main__":
    sys.exit(main())
