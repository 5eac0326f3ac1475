#!/usr/bin/env python3
r"""Make a fairseq data directory of sentences and their trees, for parsing (§6.3).

    python preprocess/trees.py --wsj LDC99T42 --destdir data
    python preprocess/trees.py --train a.mrg b.mrg --valid c.mrg --test d.mrg --destdir data

reads bracketed trees in the form of the Penn Treebank. Traces, functions and indices are cut out.
The sources are the words, split by byte-pair encoding that is learnt on them. The targets are the
trees as brackets with labels, and tags in the place of words. The data directory appears whole or
not at all.
"""

import argparse
import sys
from pathlib import Path

from corpus.build import build_from_tokens, versions
from corpus.check import add_check
from corpus.console import add_workers, run_command, say
from corpus.destination import Destination
from corpus.parallel import start_workers
from corpus.tokens import Cleaning, Job, Text

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.settings import PENN, TextSettings

try:
    from corpus.treebank import Part, digest, linearise, read, sections
except InputError as error:  # nltk is missing
    sys.exit(f"trees.py: error: {error}")

#: The sections of the Wall Street Journal that everyone trains, develops and tests on.
WSJ = {"train": range(2, 22), "valid": range(22, 23), "test": range(23, 24)}
#: Trees in them.
TREES = {"train": 39_832, "valid": 1_700, "test": 2_416}
#: The paper's vocabularies: of the Wall Street Journal only, and with further trees (§6.3).
VOCABULARY, VOCABULARY_WITH_EXTRA = 16_000, 32_000
#: Longer sequences are no use: fairseq's limit is 1,024, with the end symbol.
CLEANING = Cleaning(max_tokens=1_000, max_ratio=1_000)


class ArgumentParser(argparse.ArgumentParser):
    """A parser to which empty lines of @FILE say nothing."""

    def convert_arg_line_to_args(self, arg_line: str) -> list[str]:
        """Return the line, if it has an argument."""
        return [arg_line] if arg_line.strip() else []


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = ArgumentParser(
        prog="trees.py",
        description="Make a fairseq data directory of sentences and their trees, for parsing. "
        "@FILE in the place of arguments stands for the lines of FILE.",
        fromfile_prefix_chars="@",
    )
    option = parser.add_argument_group("trees").add_argument
    option(
        "--wsj",
        metavar="DIR",
        type=Path,
        help="the Penn Treebank as the LDC gives it: trains "
        "on sections 2 to 21 of the Wall Street Journal, develops on 22, tests on 23",
    )
    for split in WSJ:
        option(
            f"--{split}",
            metavar="FILE",
            nargs="+",
            type=Path,
            default=[],
            help=f"files of bracketed trees, of the {split} split",
        )
    option(
        "--hold-out",
        metavar="N",
        nargs=2,
        type=int,
        help="take the last trees of --train as the other splits: first so many to develop on, "
        "then so many to test on",
    )
    option(
        "--weight",
        metavar="W",
        type=float,
        default=1.0,
        help="how often each training tree is taken (default: 1)",
    )
    option(
        "--extra",
        metavar=("W FILE", "FILE"),
        nargs="+",
        action="append",
        default=[],
        help="further files to train on, such as a parser's trees: how often each tree is taken "
        "(0.5: every second tree), then the files; may be given more than once",
    )
    option = parser.add_argument
    option("--destdir", metavar="DIR", required=True, help="data directory to make")
    option(
        "--vocabulary",
        metavar="N",
        type=int,
        default=None,
        help=f"subwords of the sentences, fewer if the text gives no more (default: "
        f"{VOCABULARY:,}, or {VOCABULARY_WITH_EXTRA:,} with --extra, as in the paper)",
    )
    add_workers(parser)
    add_check(parser)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Prepare the data as the command line says, and return the exit status."""
    args = parse_args(argv)
    return run_command("trees.py", lambda: prepare(args), "nothing was made")


def prepare(args: argparse.Namespace) -> None:
    """Make the data directory, or confirm that it is up to date."""
    splits = find_parts(args)
    vocabulary = args.vocabulary
    if vocabulary is None:
        vocabulary = VOCABULARY_WITH_EXTRA if args.extra else VOCABULARY
    if min(args.workers, vocabulary) < 1:
        raise InputError("--workers and --vocabulary must be 1 or more")
    destination = Destination(Path(args.destdir).resolve(), "trees.py")
    existing = destination.settings()
    with start_workers(args.workers) as workers:
        settings = TextSettings(
            source_lang="en",
            target_lang="tree",
            merges=0,
            vocabulary=vocabulary,
            tokenizer=PENN,
            cleaning=CLEANING._asdict(),
            inputs={
                part.name: digest(part, workers) for parts in splits.values() for part in parts
            },
            versions=versions("bpe", ("nltk",)),
        )
        if existing:
            destination.check_same(existing, settings)
            print(f"{args.destdir} is up to date")
        else:
            with destination.staging() as unfinished:
                job = Job(unfinished / "work", settings, workers)
                raw = {
                    split: [read(job, part) for part in parts] for split, parts in splits.items()
                }
                check_sections(args, raw)
                tokens = {
                    split: [linearise(job, text, split) for text in texts]
                    for split, texts in raw.items()
                }
                files = {split: [text.files for text in texts] for split, texts in raw.items()}
                say(build_from_tokens(job, unfinished, tokens, files))
    print(
        f"data is in {args.destdir}; next: fairseq-train {args.destdir} --user-dir aiayn_plugin "
        "--arch aiayn_parser"
    )


def check_sections(args: argparse.Namespace, raw: dict[str, list[Text]]) -> None:
    """Warn if the sections of --wsj have other numbers of trees than the Penn Treebank has."""
    for split, known in TREES.items() if args.wsj and args.weight == 1 else ():
        if (found := raw[split][0].lines) != known:
            say(f"warning: {found:,} trees to {split} with, where the Penn Treebank has {known:,}")


def find_parts(args: argparse.Namespace) -> dict[str, list[Part]]:
    """Return the parts of each split, that of the gold trees first.

    Raises InputError if the options contradict each other, or if a file or a section is missing.
    """
    given = {split: getattr(args, split) for split in WSJ}
    kept = dict.fromkeys(WSJ, slice(None))
    if args.wsj:
        if any(given.values()) or args.hold_out:
            raise InputError(
                "--wsj says which trees train, develop and test: give it alone, or the files"
            )
        given = {split: sections(args.wsj, numbers) for split, numbers in WSJ.items()}
    elif args.hold_out:
        develop, test = args.hold_out
        if given["valid"] or given["test"] or not given["train"] or min(develop, test) < 1:
            raise InputError(
                "--hold-out needs --train, two numbers from 1 on, and neither --valid nor --test"
            )
        given = dict.fromkeys(WSJ, given["train"])
        last = -(develop + test)
        kept = {"train": slice(None, last), "valid": slice(last, -test), "test": slice(-test, None)}
    elif not (given["train"] and given["valid"]):
        raise InputError("give --wsj, or --train with --valid, or --train with --hold-out")
    known = ".wsj" if args.wsj else ""  # which sections these are, everyone knows
    parts = {
        split: [Part(split + known, files, kept[split])] for split, files in given.items() if files
    }
    parts["train"] = [parts["train"][0]._replace(weight=args.weight)]
    for number, (weight, *files) in enumerate(args.extra, start=1):
        if not files:
            raise InputError(f"--extra {weight}: give a number, and then files")
        extra = Part(f"train.extra{number}", list(map(Path, files)), weight=_number(weight))
        parts["train"].append(extra)
    for part in parts["train"]:
        if not 0 < part.weight <= 1_000:
            raise InputError(
                f"{part.name}: trees cannot be taken {part.weight:g} times: give a "
                "number above 0, and at most 1,000"
            )
    return parts


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"--extra {text}: give how often each tree is taken, such as 1, and then the files"
        ) from None


if __name__ == "__main__":
    sys.exit(main())
