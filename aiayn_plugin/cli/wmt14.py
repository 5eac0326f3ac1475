"""Download and prepare the paper's data, WMT 2014 (§5.1).

Downloads the corpora listed in a table, extracts, tokenises and cleans their text, learns and
applies subwords, and writes fairseq's binary files to DEST/data. After an interruption the same
command resumes, and the files are byte-identical to those of an uninterrupted run. Afterwards
DEST/download and DEST/work may be deleted.
"""

import argparse
from dataclasses import asdict, replace
from pathlib import Path

from ..atomic import hold_lock
from ..corpus.build import build, find_versions
from ..corpus.console import say
from ..corpus.data_directory import check_name, is_up_to_date
from ..corpus.parallel import start_workers
from ..corpus.sources import find_inputs, read_texts
from ..corpus.stages import make_stage
from ..corpus.table import WMT14, load_pair
from ..corpus.tokens import Cleaning, Job
from ..errors import InputError
from ..text.lines import escape_unprintable
from ..text.settings import PAIRS_FILE, TextSettings
from ..text.subwords import SUBWORDS
from .preparation import add_check, add_tokenizer, add_workers, explain_interrupts, show_next_step

#: Marks a directory as made by this command; locked while the command is running.
LOCK = "wmt14.lock"
#: The limits count subwords. Most systems of WMT 2014 use this ratio.
CLEANING = Cleaning(min_tokens=1, max_tokens=250, max_ratio=1.5, subwords=True)


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("pair", metavar="PAIR", help="en-de or en-fr, or another pair in the table")
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
        help="kind of subwords (default: the table's; the paper's are bpe for en-de and "
        "wordpiece for en-fr)",
    )
    add(
        "--vocabulary",
        metavar="N",
        type=int,
        help="number of subwords to learn, including the characters (default: the table's; the "
        "paper has 37,000 for en-de and 32,000 for en-fr)",
    )
    add(
        "--table",
        metavar="FILE",
        type=Path,
        default=WMT14,
        help="YAML table of corpora; the default table documents the format",
    )
    add_tokenizer(parser)
    add_workers(parser)
    add_check(parser)


@explain_interrupts("run the same command to resume")
def run(args: argparse.Namespace) -> None:
    """Make DEST/data, reusing what earlier runs have finished.

    Raises InputError or OSError for unusable options, corpora or archives.
    """
    if args.workers < 1 or (args.vocabulary is not None and args.vocabulary < 1):
        raise InputError("--workers and --vocabulary must be at least 1")
    check_name(args.dest, "--dest")
    pair = load_pair(args.table, args.pair)
    subword = args.subword or pair.subword
    dest = args.dest.resolve()
    if dest.is_dir() and any(dest.iterdir()) and not (dest / LOCK).exists():
        raise InputError(f"{dest} exists, but was not made by aiayn wmt14; choose another --dest")
    with start_workers(args.workers) as workers:
        settings = TextSettings(
            *pair.langs,
            merges=0,
            vocabulary=args.vocabulary or pair.vocabulary,
            normalize_punctuation=True,
            tokenizer=args.tokenizer,
            subword=subword,
            codes=SUBWORDS[subword].file_name,
            cleaning=CLEANING._asdict(),
            inputs=find_inputs(pair, workers),
            versions=find_versions(subword),
        )
        # Finished data may be read-only, and needs neither archives nor the stages in dest/work.
        if is_up_to_date(dest / "data", "aiayn wmt14", "--dest", settings):
            print(f"{args.dest}/data is up to date")
        else:
            dest.mkdir(parents=True, exist_ok=True)
            with hold_lock(dest / LOCK, f"another aiayn wmt14 is running in {dest}"):
                texts = read_texts(pair, dest, workers)
                inputs = {  # of the texts as read: own files may change during the download
                    f"{split}.{text.name}": "".join(text.key)
                    for split in texts
                    for text in texts[split]
                }
                settings = replace(settings, inputs=inputs)
                job = Job(dest / "work", settings, workers)
                make_stage(
                    dest,
                    "data",
                    asdict(replace(settings, versions={})),
                    lambda folder: {"summary": build(job, folder, texts)},
                )
    say(escape_unprintable((dest / "data" / PAIRS_FILE).read_text("utf-8").rstrip()))
    show_next_step(f"{args.dest}/data")
