"""Checks of prepared data: missing, changed or broken files end a command with a short error."""

import itertools
import logging
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fairseq import utils
from fairseq.data import Dictionary, FairseqDataset, data_utils
from fairseq.data.indexed_dataset import infer_dataset_impl

from ..errors import InputError
from ..text.lines import read_data_file
from ..text.manifest import read_manifest, read_verified_dictionary, verify_files
from .binary_data import check_sentences

logger = logging.getLogger(__name__)
#: Values of --dataset-impl for text files, and for binary files that check_sentences reads.
#: None: fairseq does not recognise the format, and check_sentences raises the error.
TEXT_FORMATS = ("raw", "fasta")
BINARY_FORMATS = (None, "mmap")
ADVICE = "give a directory made by aiayn prepare or fairseq-preprocess"


def check_directories(cfg: Any) -> None:
    """Raise InputError if a data directory is missing, or its language pair unknown or incomplete.

    cfg: the task's configuration. fairseq reads the dictionaries of the first directory only, so
    different ones in another directory are an error too.
    """
    paths = utils.split_paths(cfg.data)
    for path in map(Path, paths):
        if not path.is_dir():
            problem = "is not a directory" if path.exists() else "is missing"
            raise InputError(f"the data directory {path} {problem}: {ADVICE}")
    languages = cfg.source_lang, cfg.target_lang
    if None in languages:
        pair = data_utils.infer_language_pair(paths[0])
        if None in pair:
            raise InputError(
                f"{paths[0]} has no file of a language pair, such as train.en-de.en.bin: "
                f"{ADVICE}, or --source-lang and --target-lang"
            )
        if any(
            lang not in (None, inferred) for lang, inferred in zip(languages, pair, strict=True)
        ):
            raise InputError(
                "give both --source-lang and --target-lang: given only one, fairseq uses the "
                f"direction of {paths[0]}, {pair[0]} to {pair[1]}"
            )
    for path in paths[1:]:
        for file in Path(paths[0]).glob("dict.*.txt"):
            other = Path(path, file.name)
            if other.exists() and read_data_file(other) != read_data_file(file):
                raise InputError(
                    f"{other} differs from {file}: prepare all shards with the same dictionaries"
                )


def check_buckets(cfg: Any) -> None:
    """Raise InputError for --num-batch-buckets with numpy 2, which removed names fairseq uses.

    cfg: the task's configuration.
    """
    if cfg.num_batch_buckets > 0 and not hasattr(np, "compat"):
        raise InputError(
            "--num-batch-buckets fails in fairseq with numpy 2: omit it (sentences are sorted by "
            "length in any case), or install numpy<2"
        )


def infer_languages(args: Any) -> None:
    """Set the languages that some options need, as the task will infer them from the data.

    args: fairseq's options. Raises InputError as check_directories does.
    """
    langs = (getattr(args, name, "") for name in ("source_lang", "target_lang"))
    needed = "moses" == getattr(args, "tokenizer", "") or hasattr(args, "paper_bleu_lang")
    # A multilingual task of fairseq takes two languages as a request to translate, not to train.
    if needed and None in langs and not hasattr(args, "lang_pairs"):
        check_directories(args)
        pair = data_utils.infer_language_pair(utils.split_paths(args.data)[0])
        args.source_lang, args.target_lang = pair


def check_dictionary(path: Path) -> None:
    """Raise InputError if a dictionary is missing, changed or broken."""
    if not path.is_file() and path.name not in read_manifest(path.parent):
        present = ", ".join(sorted(file.name for file in path.parent.glob("dict.*.txt")))
        hint = f"; found {present}: see --source-lang and --target-lang" if present else ""
        raise InputError(f"{path} is missing: {ADVICE}{hint}")
    read_verified_dictionary(path)


def check_split(
    cfg: Any,
    split: str,
    epoch: int,
    combine: bool,
    dictionaries: Sequence[Dictionary],
    needs_target: bool,
) -> None:
    """Check the files of a split before FairseqTask.load_dataset reads them.

    cfg: the task's configuration. dictionaries: source and target. Warns if the split has no
    target side and does not need it. Raises InputError if the split does not exist, or if a file is
    missing, changed or broken.
    """
    shards = utils.split_paths(cfg.data)  # of the training set; other splits are in the first
    data = Path(shards[(epoch - 1) % len(shards)] if split == cfg.train_subset else shards[0])
    files = {path.name for path in data.iterdir()} | read_manifest(data).keys()
    endings = ("",) if cfg.dataset_impl in TEXT_FORMATS else (".bin", ".idx")
    langs = [cfg.source_lang, cfg.target_lang]
    prefixes = list(_find_prefixes(data, split, langs, combine, endings, files))
    if len(prefixes) > 1 and cfg.upsample_primary < 1:
        raise InputError(
            f"{data} has several {split} sets ({', '.join(prefixes)}): give --upsample-primary 1 "
            "to concatenate them"
        )
    for prefix in prefixes:
        sides = [f"{prefix}.{lang}" for lang in langs]
        source, target = ([side + ending for ending in endings] for side in sides)
        verify_files(data, [*source, *target], contents=False)
        if files.isdisjoint(target):
            sides.pop()
            _report_missing_target(" and ".join(str(data / name) for name in target), needs_target)
        impl = cfg.dataset_impl or infer_dataset_impl(str(data / sides[0]))
        if impl in BINARY_FORMATS:
            _check_sides([data / side for side in sides], dictionaries)


def _report_missing_target(target: str, is_needed: bool) -> None:
    """Warn that the files of a target side are missing. Raises InputError if they are needed."""
    if is_needed:
        raise InputError(
            f"the target side is missing ({target}): prepare the data again, or give a split that "
            "has both sides"
        )
    logger.warning("no target side (%s), hence no references or scores", target)


def _check_sides(sides: Sequence[Path], dictionaries: Sequence[Dictionary]) -> None:
    """Raise InputError if a side is broken, or if both hold different numbers of sentences.

    sides: the prefixes of the binary files of the source and, unless it is missing, the target.
    """
    counts = [
        check_sentences(str(side), len(dictionary), dictionary.eos())
        for side, dictionary in zip(sides, dictionaries, strict=False)
    ]
    if counts[0] != counts[-1]:
        raise InputError(
            f"{sides[0]} holds {counts[0]:,} sentences, but {sides[1]} holds {counts[1]:,}: "
            "prepare the data again"
        )


def _find_prefixes(
    data: Path,
    split: str,
    langs: list[str],
    combine: bool,
    endings: tuple[str, ...],
    files: Collection[str],
) -> Iterator[str]:
    """Yield the prefixes of a split's files: test.en-de; with combine also test1.en-de, and so on.

    As in fairseq, the source side decides which exist, and the first missing number ends the split.
    Raises InputError for a missing split.
    """
    pairs = ["-".join(langs), "-".join(reversed(langs))]
    for number in itertools.count() if combine else (0,):
        candidates = [f"{split}{number or ''}.{pair}" for pair in pairs]
        # In fairseq's order; a split without its source side gets its own error.
        sides = itertools.product(langs[:1] if number else langs, candidates, endings)
        prefixes = [prefix for lang, prefix, end in sides if f"{prefix}.{lang}{end}" in files]
        if not prefixes and number == 0:
            raise _missing_split(data, split, langs, pairs, files)
        if not prefixes:
            return
        yield prefixes[0]


def _missing_split(
    data: Path, split: str, langs: list[str], pairs: list[str], files: Collection[str]
) -> InputError:
    """Return the error for a split that has no file in the expected format."""
    pattern = re.compile(rf"(.+)\.(?:{'|'.join(map(re.escape, pairs))})\..*")
    splits = sorted({match[1] for match in map(pattern.fullmatch, files) if match})
    if split in splits:
        return InputError(
            f"split {split!r} in {data} has a different format: give --dataset-impl raw for text, "
            "and omit it for binary data"
        )
    return InputError(
        f"no split {split!r} of {' and '.join(langs)} in {data}: "
        + (f"its splits are {', '.join(splits)}" if splits else ADVICE)
    )


def check_lengths(indices: Any, dataset: FairseqDataset, max_positions: Any) -> None:
    """Raise InputError if a sentence is longer than max_positions (source, target)."""
    _, too_long = dataset.filter_indices_by_size(indices, max_positions)
    if too_long:
        first, number = min(too_long), len(too_long)
        exceed = "1 sentence exceeds" if number == 1 else f"{number:,} sentences exceed"
        tokens = tuple(map(int, dataset.size(first)))
        raise InputError(
            f"{exceed} the (source, target) limits {max_positions} of the model and the task; the "
            f"first is sentence {first + 1} with {tokens} tokens: raise "
            "--max-source-positions and --max-target-positions (except for learned positions), or "
            "skip these sentences with --skip-invalid-size-inputs-valid-test"
        )
