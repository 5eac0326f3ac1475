"""§6.1: the output of fairseq-generate, as raw text next to its references."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ..errors import InputError
from .lines import read_lines
from .manifest import verify_files
from .pipeline import TextPipeline

#: A hypothesis in the output of fairseq-generate; the best one of a sentence comes first.
HYPOTHESIS = re.compile(r"H-(\d{1,18})\t[^\t]*\t(.*)")
#: A target in the output of fairseq-generate.
TARGET = re.compile(r"T-(\d{1,18})\t(.*)")
#: What separates words and subwords.
SEPARATORS = re.compile(r"@@|▁|\s")


def read_hypotheses(log: Iterable[str]) -> list[str]:
    """Return the best hypothesis of each sentence, as subwords, in the order of the test set.

    Raises InputError if the log lacks a sentence or has one twice.
    """
    best: dict[int, str] = {}
    last = None
    for line in log:
        if match := HYPOTHESIS.fullmatch(line):
            number = int(match[1])
            if number != last and number in best:
                raise InputError(
                    f"the log has sentence {number} (H-{number}) twice: give the output of one run "
                    "of fairseq-generate"
                )
            best.setdefault(number, match[2])
            last = number
    if not best:
        raise InputError("the log has no hypothesis (H-…): give the output of fairseq-generate")
    numbers = sorted(best)
    for expected, number in enumerate(numbers):
        if expected != number:
            raise InputError(f"the log has no hypothesis for sentence {expected} (H-{expected})")
    return [best[number] for number in numbers]


def read_log(log: Path) -> tuple[list[str], dict[int, str]]:
    """Return the hypotheses of a fairseq-generate log, and its targets by sentence.

    Targets with an unknown word, which fairseq writes as <<unk>>, are left out. Raises InputError
    as read_hypotheses does, and OSError.
    """
    lines = list(read_lines(log))
    hypotheses = read_hypotheses(lines)
    targets = {int(match[1]): match[2] for match in map(TARGET.fullmatch, lines) if match}
    return hypotheses, {number: text for number, text in targets.items() if "<unk>" not in text}


class Translations(NamedTuple):
    """Raw text: sources (empty if unknown), hypotheses, references, and the target language."""

    sources: list[str]
    system: list[str]
    references: list[str]
    target_lang: str


def read_translations(
    log: Path, data: Path, split: str, target_lang: str | None = None
) -> Translations:
    """Return the output of fairseq-generate as raw text, with the raw references kept in `data`.

    target_lang: by default the data's; its source language for the reverse direction. Raises
    InputError or OSError for a log or data that cannot be used, and InputError if the targets in
    the log differ from the references.
    """
    pipeline = TextPipeline.load(data)
    languages = pipeline.settings.languages
    if target_lang not in (None, *languages):
        raise InputError(
            f"--target-lang {target_lang}: {data} holds {languages[0]} and {languages[1]}"
        )
    if target_lang == languages[0]:
        languages = languages[1], languages[0]
    hypotheses, targets = read_log(log)
    system = [pipeline.decode(line, languages[1]) for line in hypotheses]
    raw = [f"{split}.raw.{lang}" for lang in languages]
    verify_files(data, raw, contents=False)
    sources, references = (list(read_lines(data / name)) for name in raw)
    if len(sources) != len(references):
        raise InputError(
            f"{data / raw[0]} and {raw[1]} have different numbers of lines: prepare the data again"
        )
    for number, target in targets.items():
        reference = references[number] if number < len(references) else ""
        # Characters alone are the same with and without --remove-bpe.
        tokens = " ".join(pipeline.tokenize(reference, languages[1]))
        if SEPARATORS.sub("", target) != SEPARATORS.sub("", tokens):
            raise InputError(
                f"the references in {log} are not those of {data / raw[1]}: T-{number} is "
                f"{target!r:.60}, but line {number + 1} is {reference!r:.60}. Give the --data and "
                "--split that were translated, and --target-lang for the reverse direction"
            )
    return Translations(sources, system, references, languages[1])
