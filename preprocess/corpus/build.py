"""The whole way from raw parallel text to a fairseq data directory.

Each step is a stage. It goes through the text line by line on all cores. A pair of lines is kept or
dropped whole, and only a newline ends a line, so both languages stay in step.
"""

import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.lines import clean_line, read_lines
from aiayn_plugin.text.manifest import sha256, write_manifest
from aiayn_plugin.text.settings import PAIRS_FILE, SETTINGS_FILE, TextSettings
from aiayn_plugin.text.tokenizer import SACREMOSES

from .binary import PIECES_FILE, binarise, dictionaries
from .console import say
from .parallel import Counts, Files, Langs
from .stages import LOCK_SUFFIX, Stage
from .subwords import encode, learn
from .tokens import Cleaning, Job, Text, tokenise

FAIRSEQ = "fairseq" if sys.version_info < (3, 11) else "fairseq-fixed"


def build(job: Job, destdir: Path, splits: dict[str, list[Text]]) -> str:
    """Fill destdir from the raw texts of each split, and return one line about the training pairs.

    Raises InputError as build_from_tokens does.
    """
    tokenised = {
        split: [tokenise(job, text, split) for text in texts] for split, texts in splits.items()
    }
    raw = {split: [text.files for text in texts] for split, texts in splits.items()}
    return build_from_tokens(job, destdir, tokenised, raw)


def build_from_tokens(
    job: Job, destdir: Path, tokenised: dict[str, list[Stage]], raw: dict[str, list[Files]]
) -> str:
    """Fill destdir from the tokens of each split, and return one line about the training pairs.

    tokenised: stages as `tokenise` makes them. raw: the raw text, of which that of the validation
    and the test set is kept. The checksums of all files are written last.

    Raises InputError if the text gives no training pair or no subword.
    """
    settings = job.settings
    count_pairs(tokenised["train"])  # raises here, before learning, if no pair is left
    learnt = learn(job, tokenised["train"])
    train = encode(job, "train", tokenised["train"], learnt)
    # A parser's search counts words, and a piece that no training text has may hide the end of one.
    known = train if settings.holds_trees else None
    encoded = {
        "train": train,
        **{
            split: encode(job, split, stages, learnt, known)
            for split, stages in tokenised.items()
            if split != "train"
        },
    }
    summary = count_pairs([*tokenised["train"], encoded["train"]])
    say("making the dictionary and the binary files")
    words = _dictionaries(job, learnt, encoded["train"])
    for lang, of_side in zip(job.langs, words, strict=True):
        of_side.save(str(destdir / f"dict.{lang}.txt"))
    for split, stage in encoded.items():
        binarise(job, split, stage, words, destdir)
    for split in tokenised.keys() - {"train"}:
        _keep_raw(split, raw[split], destdir, job.langs)
    codes = destdir / settings.codes
    codes.write_bytes((learnt.folder / settings.codes).read_bytes())
    replace(settings, codes_sha256=sha256(codes)).save(destdir / SETTINGS_FILE)
    (destdir / PAIRS_FILE).write_text(f"{summary}\n", "utf-8")
    files = (path for path in destdir.iterdir() if path.is_file() and path.suffix != LOCK_SUFFIX)
    write_manifest(destdir, [path.name for path in files])
    return summary


def count_pairs(stages: list[Stage]) -> str:
    """Return one line about the training pairs that the stages kept and dropped.

    Raises InputError if they kept none.
    """
    dropped = Counts()
    for stage in stages:
        dropped.update(stage.result["dropped"])
    pairs = sum(stage.result.get("lines", 0) for stage in stages)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.most_common())
    kept = pairs - dropped.total()
    if not kept:
        raise InputError(f"cleaning left no training pair ({reasons}); see the cleaning options")
    return f"training pairs: {kept:,} of {pairs:,} kept; dropped: {reasons or 'none'}"


def versions(subword: str, tokenizer: tuple[str, ...] = ("sacremoses", "regex")) -> dict[str, str]:
    """Return the versions of the libraries that the data depends on; tokenizer: those of its words.

    Raises InputError if the library of this kind of subwords is not installed.
    """
    libraries = [*tokenizer, "subword-nmt", FAIRSEQ]
    if subword == "wordpiece":
        if not importlib.util.find_spec("sentencepiece"):
            raise InputError("word-pieces need sentencepiece: pip install sentencepiece")
        libraries.append("sentencepiece")
    return {name: importlib.metadata.version(name) for name in libraries}


def differing_settings(existing: TextSettings, wanted: TextSettings) -> list[str]:
    """Return the names of the settings that differ.

    Versions do not count: a newer library does not undo finished data.
    """

    def comparable(settings: TextSettings) -> dict:
        # An older version may not have written all limits.
        cleaning = Cleaning(**settings.cleaning)._asdict()  # type: ignore[arg-type]
        return asdict(replace(settings, versions={}, codes_sha256="", cleaning=cleaning))

    ours, theirs = comparable(wanted), comparable(existing)
    return [name for name in ours if ours[name] != theirs[name]]


def advice_on(differences: list[str], existing: TextSettings) -> str:
    """Return the start of an advice, if the tokeniser alone differs: its default has changed."""
    if differences != ["tokenizer"]:
        return ""
    if existing.tokenizer == SACREMOSES:
        return "it was made with --protect-patterns: give it, or "
    return "it was made without --protect-patterns: leave it out, or "


def missing_binaries(data: Path, splits: Iterable[str], langs: Langs) -> list[str]:
    """Return the names of the binary files that a data directory lacks."""
    names = [
        f"{split}.{'-'.join(langs)}.{lang}.{end}"
        for split in splits
        for lang in langs
        for end in ("bin", "idx")
    ]
    return [name for name in names if not (data / name).is_file()]


def _dictionaries(job: Job, learnt: Stage, train: Stage) -> list[Any]:
    """Return fairseq's dictionary of each side."""
    if job.settings.subword == "wordpiece":
        from fairseq.data import Dictionary

        return [Dictionary.load(str(learnt.folder / "dict.txt"))] * 2
    return dictionaries(train.folder / PIECES_FILE, joined=not job.settings.holds_trees)


def _keep_raw(split: str, texts: list[Files], destdir: Path, langs: Langs) -> None:
    """Copy the raw validation or test text, for scoring. Every reader sees the same lines in it."""
    for side, lang in enumerate(langs):
        with open(destdir / f"{split}.raw.{lang}", "w", encoding="utf-8", newline="\n") as file:
            for files in texts:
                file.writelines(f"{clean_line(line)}\n" for line in read_lines(files[side]))
