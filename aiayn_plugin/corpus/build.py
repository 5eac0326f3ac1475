"""From raw parallel text or tokens to a fairseq data directory.

Each step is a stage that processes the text line by line on all cores. A pair of lines is kept or
dropped as a whole, and only a newline ends a line, so both languages stay aligned.
"""

import importlib.metadata
import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path

from ..atomic import write_directory_atomically
from ..errors import InputError
from ..text.lines import clean_line, read_lines
from ..text.manifest import hash_file, write_manifest
from ..text.settings import PAIRS_FILE, SETTINGS_FILE, TextSettings
from .binary import binarise, write_dictionary
from .console import say
from .data_directory import check_name, is_up_to_date
from .parallel import Counts, Files, Langs, Workers
from .stages import Stage
from .subwords import encode, learn
from .tokens import Job, Text, read_counts, tokenise


def make_data_directory(
    destdir: Path,
    program: str,
    settings: TextSettings,
    workers: Workers,
    fill: Callable[[Job, Path], str],
) -> None:
    """Make a data directory, or confirm that it is complete and has the same settings and inputs.

    fill: writes the data to a temporary directory and returns one line about the training pairs.

    Raises InputError if the directory has different settings or was not made by `program`, or if
    its name has a colon.
    """
    check_name(destdir, "--destdir")
    data = destdir.resolve()
    if is_up_to_date(data, program, "--destdir", settings):
        print(f"{destdir} is up to date")
        return
    with write_directory_atomically(data) as unfinished:
        say(fill(Job(unfinished / "work", settings, workers), unfinished))
        shutil.rmtree(unfinished / "work")


def build(
    job: Job,
    destdir: Path,
    texts: dict[str, list[Text]],
    make_tokens: Callable[[Job, Text, str], Stage] = tokenise,
) -> str:
    """Fill destdir from the texts of each split; return one line about the training pairs.

    make_tokens: writes the tokens of a text and returns their stage. The raw validation and test
    texts are kept. The checksums of all files are written last.

    Raises InputError if the texts yield no training pairs or no subwords.
    """
    settings = job.settings
    tokenised = {split: [make_tokens(job, text, split) for text in texts[split]] for split in texts}
    summarise_pairs(tokenised["train"])  # before learning, raise an error if no pairs are left
    learned = learn(job, tokenised["train"])
    train = encode(job, "train", tokenised["train"], learned)
    # A parser's search counts words. Subwords absent from training would become <unk>, which hides
    # word ends.
    allowed = train if settings.holds_trees else None
    encoded = {"train": train} | {
        split: encode(job, split, stages, learned, allowed)
        for split, stages in tokenised.items()
        if split != "train"
    }
    summary = summarise_pairs(tokenised["train"], [train])
    say("writing the dictionary and the binary files")
    _write_dictionaries(job, learned, train, destdir)
    for split, stage in encoded.items():
        binarise(job, split, stage, destdir)
    for split in texts.keys() - {"train"}:
        _keep_raw(split, [text.files for text in texts[split]], destdir, settings.languages)
    codes = Path(shutil.copyfile(learned.folder / settings.codes, destdir / settings.codes))
    replace(settings, codes_sha256=hash_file(codes)).save(destdir / SETTINGS_FILE)
    (destdir / PAIRS_FILE).write_text(f"{summary}\n", "utf-8")
    write_manifest(destdir, [path.name for path in destdir.iterdir() if path.is_file()])
    return summary


def summarise_pairs(*steps: list[Stage]) -> str:
    """Return one line about the training pairs that the stages of successive steps kept.

    Raises InputError if the last step kept none.
    """
    dropped = Counts()
    for stage in chain(*steps):
        dropped.update(stage.result["dropped"])
    kept = sum(stage.result["pairs"] for stage in steps[-1])
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.most_common())
    if not kept:
        raise InputError(
            f"cleaning left no training pairs ({reasons}): check the text and its languages"
        )
    return (
        f"training pairs: {kept:,} of {kept + dropped.total():,} kept; dropped: {reasons or 'none'}"
    )


def find_versions(
    subword: str, word_libraries: tuple[str, ...] = ("sacremoses", "regex")
) -> dict[str, str]:
    """Return the versions of the libraries that the data depends on.

    Raises InputError if the library of this kind of subwords is not installed.
    """
    libraries = [*word_libraries, "subword-nmt"]
    if subword == "wordpiece":
        if not importlib.util.find_spec("sentencepiece"):
            raise InputError("wordpieces need sentencepiece: pip install sentencepiece")
        libraries.append("sentencepiece")
    return {name: importlib.metadata.version(name) for name in libraries}


def _write_dictionaries(job: Job, learned: Stage, train: Stage, destdir: Path) -> None:
    """Write fairseq's dictionary of each side; except for trees, they are the same."""
    counts = read_counts(train.folder)
    for name, side_counts in zip(job.settings.dictionaries, counts, strict=True):
        path = destdir / name
        if job.settings.subword == "wordpiece":
            shutil.copyfile(learned.folder / "dict.txt", path)
        else:
            write_dictionary(
                path, side_counts if job.settings.holds_trees else sum(counts, Counts())
            )


def _keep_raw(split: str, texts: list[Files], destdir: Path, langs: Langs) -> None:
    """Copy the raw validation or test text for scoring, with only newlines as line breaks."""
    for side, lang in enumerate(langs):
        with open(destdir / f"{split}.raw.{lang}", "w", encoding="utf-8", newline="\n") as file:
            for files in texts:
                file.writelines(f"{clean_line(line)}\n" for line in read_lines(files[side]))
