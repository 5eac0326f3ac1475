"""Prepared data as the task finds it: what is missing, changed or broken is told in one line."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from fairseq import utils
from fairseq.data import data_utils
from fairseq.data.indexed_dataset import infer_dataset_impl
from fairseq.file_io import PathManager
from omegaconf import OmegaConf

from ..errors import InputError
from ..text.manifest import read_manifest, read_verified_dictionary, verify_files
from .binary_data import check_sentences

logger = logging.getLogger(__name__)
#: The values of --dataset-impl for text, and those for files that binary.py reads. None: fairseq
#: does not know the file either.
TEXT = ("raw", "fasta")
BINARY = (None, "mmap", "cached", "lazy")
ADVICE = "give a directory that a program of preprocess/ or fairseq-preprocess made"


def check_directories(cfg: Any) -> None:
    """Raise InputError if a directory of the task's data is missing, or shows no languages."""
    for path in map(Path, utils.split_paths(cfg.data)):
        if not path.is_dir() and not PathManager.path_requires_pathmanager(str(path)):
            what = "is no directory" if path.exists() else "is missing"
            raise InputError(f"the data directory {path} {what}: {ADVICE}")
    given = cfg.source_lang, cfg.target_lang
    first = utils.split_paths(cfg.data)[0]
    if None in given and None in data_utils.infer_language_pair(first):
        raise InputError(
            f"no file in {first} is named as a split of two languages, like "
            f"train.en-de.en.bin: {ADVICE}, or --source-lang and --target-lang"
        )


def check_dictionary(path: Path) -> None:
    """As read_verified_dictionary, with what helps if the file is missing."""
    if PathManager.path_requires_pathmanager(str(path)):
        return
    if not path.is_file() and path.name not in read_manifest(path.parent):
        others = ", ".join(sorted(other.name for other in path.parent.glob("dict.*.txt")))
        there = f"; there: {others}; see --source-lang and --target-lang" if others else ""
        raise InputError(f"{path} is missing: {ADVICE}{there}")
    read_verified_dictionary(path)


def check_split(task: Any, split: str, epoch: int, combine: bool) -> None:
    """Check the files of a split before the task loads them, as FairseqTask.load_dataset does.

    Without its target side a split can be translated; then there is a warning. Raises InputError if
    the split is unknown, lacks a target that is needed, or if a file is missing, changed or broken.
    """
    cfg = task.cfg
    paths = utils.split_paths(cfg.data)
    data = Path(paths[(epoch - 1) % len(paths) if split == cfg.train_subset else 0])
    if PathManager.path_requires_pathmanager(str(data)):
        return
    manifest = read_manifest(data)
    known = {path.name for path in data.iterdir()} | {*manifest}
    ends = ("",) if cfg.dataset_impl in TEXT else (".bin", ".idx")
    langs = [cfg.source_lang, cfg.target_lang]
    for part in _parts(data, split, langs, combine, ends, known):
        sides = [f"{part}.{lang}" for lang in langs]
        verify_files(data, manifest, [side + end for side in sides for end in ends], contents=False)
        if not any(sides[1] + end in known for end in ends):
            _without_target(data / sides[1], task)
            del sides[1]
        impl = cfg.dataset_impl or infer_dataset_impl(str(data / sides[0]))
        if impl in BINARY:
            _check_sentences([data / side for side in sides], task)


def _without_target(side: Path, task: Any) -> None:
    """Warn that a split has no target side, or raise InputError if the task needs it."""
    generation = (OmegaConf.is_config(task.cfg) and task.cfg._get_root().get("generation")) or {}
    if task.needs_target or generation.get("score_reference") or generation.get("prefix_size"):
        raise InputError(
            f"{side}.bin and .idx are missing, the target side: prepare the data "
            "anew, or give a split that has both sides"
        )
    logger.warning("%s.bin and .idx are missing: there are no references, and no scores", side)


def _check_sentences(sides: list[Path], task: Any) -> None:
    """Raise InputError if the files of one or both sides are broken."""
    dictionaries = task.source_dictionary, task.target_dictionary
    counts = [
        check_sentences(str(side), len(dictionary), dictionary.eos())
        for side, dictionary in zip(sides, dictionaries, strict=False)
    ]
    if counts[0] != counts[-1]:
        raise InputError(
            f"{sides[0]} holds {counts[0]:,} sentences and {sides[1]} {counts[1]:,}: "
            "prepare the data anew"
        )


@contextmanager
def in_one_line(split: str) -> Iterator[None]:
    """Give what fairseq reports of a split's files as an InputError: it checks raw text itself."""
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError, AssertionError) as error:
        raise InputError(
            f"split {split!r} cannot be loaded: {error}; prepare the data anew"
        ) from error


def _parts(
    data: Path, split: str, langs: list[str], combine: bool, ends: tuple[str, ...], known: set[str]
) -> Iterator[str]:
    """Yield the names of a split's parts, such as test.en-de. Raises InputError if it has none.

    known: the names of all files. fairseq finds a part by its source side.
    """
    pairs = ["-".join(langs), "-".join(reversed(langs))]
    for number in count() if combine else (0,):
        part = f"{split}{number or ''}"
        found = [
            name
            for lang in langs
            for name in (f"{part}.{pair}" for pair in pairs)
            if {f"{name}.{lang}{end}" for end in ends} & known
        ]
        if found:
            yield found[0]
        elif number:
            return
        else:
            named = re.compile(rf"(.+)\.(?:{'|'.join(map(re.escape, pairs))})\..*")
            there = sorted({match[1] for match in map(named.fullmatch, known) if match})
            raise InputError(
                f"no split {split!r} of {' and '.join(langs)} in {data}: "
                + (f"there are {', '.join(there)}" if there else ADVICE)
            )
