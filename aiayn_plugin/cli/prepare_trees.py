"""Create a fairseq data directory of sentences and their trees, for parsing (§6.3).

Reads bracketed trees in the format of the Penn Treebank, and removes traces, function tags and
indices. The sources are the words, split with byte-pair encoding learned on them. The targets are
the trees as labelled brackets, with part-of-speech tags instead of words. The data directory
appears only when it is complete. An argument @FILE is replaced by the lines of FILE.
"""

import argparse
from pathlib import Path

from ..corpus.build import build, find_versions, make_data_directory
from ..corpus.console import say
from ..corpus.parallel import start_workers
from ..corpus.tokens import Cleaning, Job
from ..corpus.tree_files import TreeSet, find_sections, hash_trees
from ..errors import InputError
from ..text.settings import PENN, TextSettings
from .preparation import add_check, add_workers, explain_interrupts, show_next_step

#: The standard sections of the Wall Street Journal, and the number of trees in each split.
WSJ = {"train": range(2, 22), "valid": range(22, 23), "test": range(23, 24)}
TREES = {"train": 39_832, "valid": 1_700, "test": 2_416}
#: The paper's vocabularies: with the Wall Street Journal only, and with further trees (§6.3).
VOCABULARY, VOCABULARY_WITH_EXTRA = 16_000, 32_000
#: fairseq's limit is 1,024 tokens, including the end symbol.
CLEANING = Cleaning(max_tokens=1_000, max_ratio=1_000)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.fromfile_prefix_chars = "@"
    parser.convert_arg_line_to_args = _split_line  # type: ignore[assignment, method-assign]
    option = parser.add_argument_group("trees").add_argument
    option(
        "--wsj",
        metavar="DIR",
        type=Path,
        help="the Penn Treebank as distributed by the LDC: sections 2 to 21 of the Wall Street "
        "Journal for training, 22 for validation, 23 for testing",
    )
    for split in WSJ:
        option(
            f"--{split}",
            metavar="FILE",
            nargs="+",
            type=Path,
            default=[],
            help=f"files of bracketed trees for the {split} split",
        )
    option(
        "--hold-out",
        metavar="N",
        nargs=2,
        type=int,
        help="numbers of validation and test trees to take from the end of --train",
    )
    option(
        "--weight",
        metavar="W",
        type=float,
        default=1.0,
        help="number of times each tree of --train or --wsj is used (default: 1)",
    )
    option(
        "--recombine",
        metavar="N",
        type=int,
        default=0,
        help="add N recombined trees for each tree of --train or --wsj, with constituents replaced "
        "by constituents of the same label and similar length",
    )
    option(
        "--extra",
        metavar=("W FILE", "FILE"),
        nargs="+",
        action="append",
        default=[],
        help="additional training trees, such as a parser's output: the weight of each tree (0.5: "
        "every second tree), then the files; may be repeated",
    )
    option(
        "--wsj-labels",
        action="store_true",
        help="restrict --extra trees to the labels and tags of the Wall Street Journal: replace or "
        "remove the rest, such as NML and HYPH, and report how many",
    )
    option = parser.add_argument
    option("--destdir", metavar="DIR", required=True, help="data directory to create")
    option(
        "--vocabulary",
        metavar="N",
        type=int,
        help=f"number of subwords to learn for the sentences; a small text yields fewer (default: "
        f"{VOCABULARY:,}, or {VOCABULARY_WITH_EXTRA:,} with --extra, as in the paper)",
    )
    add_workers(parser)
    add_check(parser)


def _split_line(line: str) -> list[str]:
    """Return the argument on a line of @FILE; skip empty lines. Raises InputError for @FILE."""
    if line.startswith("@"):
        raise InputError(f"{line}: a list of arguments cannot contain another one")
    return [line] if line.strip() else []


@explain_interrupts("no data was written")
def run(args: argparse.Namespace) -> None:
    """Make the data directory. Raises InputError or OSError for unusable options or trees."""
    from ..corpus.treebank import linearise, read_tree_set

    splits = find_tree_sets(args)
    vocabulary = args.vocabulary
    if vocabulary is None:
        vocabulary = VOCABULARY_WITH_EXTRA if args.extra else VOCABULARY
    if min(args.workers, vocabulary) < 1:
        raise InputError("--workers and --vocabulary must be at least 1")

    def fill(job: Job, unfinished: Path) -> str:
        texts = {
            split: [read_tree_set(job, trees) for trees in tree_sets]
            for split, tree_sets in splits.items()
        }
        if args.wsj and args.weight == 1:
            check_sections({split: texts[split][0].lines for split in WSJ})
        return build(job, unfinished, texts, linearise)

    with start_workers(args.workers) as workers:
        settings = TextSettings(
            source_lang="en",
            target_lang="tree",
            merges=0,
            vocabulary=vocabulary,
            tokenizer=PENN,
            cleaning=CLEANING._asdict(),
            inputs={
                trees.name: hash_trees(trees, workers)
                for tree_sets in splits.values()
                for trees in tree_sets
            },
            versions=find_versions("bpe", ("nltk",)),
        )
        make_data_directory(Path(args.destdir), "aiayn prepare-trees", settings, workers, fill)
    show_next_step(args.destdir, "aiayn_parser")


def check_sections(counts: dict[str, int]) -> None:
    """Warn if a split of --wsj has a different number of trees than the Penn Treebank."""
    for split, expected in TREES.items():
        if counts[split] != expected:
            say(f"warning: {counts[split]:,} {split} trees; the Penn Treebank has {expected:,}")


def find_tree_sets(args: argparse.Namespace) -> dict[str, list[TreeSet]]:
    """Return the trees of each split, those of --extra last.

    Raises InputError if options contradict each other, or a file or a section is missing.
    """
    splits = _find_gold_sets(args)
    gold = splits["train"]
    train = [gold._replace(weight=args.weight)]
    if args.wsj_labels and not args.extra:
        raise InputError("--wsj-labels needs --extra")
    if args.recombine < 0:
        raise InputError(f"--recombine {args.recombine} must not be negative")
    if args.recombine:
        train.append(gold._replace(name=f"{gold.name}.recombined", recombined=args.recombine))
    for number, (weight, *paths) in enumerate(args.extra, start=1):
        extra = _parse_extra(f"train.extra{number}", weight, paths)
        train.append(extra._replace(wsj_labels=args.wsj_labels))
    for trees in train:
        if not 0 < trees.weight <= 1_000:
            raise InputError(
                f"{trees.name}: cannot use trees {trees.weight:g} times: give a number above 0, "
                "at most 1,000"
            )
    return {split: [trees] for split, trees in splits.items()} | {"train": train}


def _find_gold_sets(args: argparse.Namespace) -> dict[str, TreeSet]:
    """Return the trees of --wsj, or of --train, --valid and --test, by split.

    Raises InputError if options contradict each other or are missing.
    """
    files = {split: getattr(args, split) for split in WSJ}
    kept = dict.fromkeys(WSJ, slice(None))
    if args.wsj:
        if any(files.values()) or args.hold_out:
            raise InputError("--wsj sets all splits: omit --train, --valid, --test and --hold-out")
        files = {split: find_sections(args.wsj, numbers) for split, numbers in WSJ.items()}
    elif args.hold_out:
        valid, test = args.hold_out
        if files["valid"] or files["test"] or not files["train"] or min(valid, test) < 1:
            raise InputError(
                "--hold-out needs --train, two numbers of at least 1, and neither --valid nor "
                "--test"
            )
        files = dict.fromkeys(WSJ, files["train"])
        last = -(valid + test)
        kept = {"train": slice(None, last), "valid": slice(last, -test), "test": slice(-test, None)}
    elif not (files["train"] and files["valid"]):
        raise InputError("give --wsj, or --train with --valid, or --train with --hold-out")
    suffix = ".wsj" if args.wsj else ""
    return {
        split: TreeSet(split + suffix, paths, kept[split])
        for split, paths in files.items()
        if paths
    }


def _parse_extra(name: str, weight: str, paths: list[str]) -> TreeSet:
    """Return the trees of one --extra. Raises InputError unless it has a number and files."""
    if not paths:
        raise InputError(f"--extra {weight}: give a number, and then files")
    try:
        return TreeSet(name, list(map(Path, paths)), weight=float(weight))
    except ValueError:
        raise InputError(
            f"--extra {weight}: first give how often each tree is used, such as 1"
        ) from None
