"""§6.1 Scores of a translation: BLEU as people counted it in 2017, and as they count it today."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest
from sacremoses import MosesPunctNormalizer

from ..errors import InputError
from .lines import read_lines
from .manifest import read_manifest, verify_files
from .pipeline import TextPipeline
from .tokenizer import SacremosesTokenizer

#: A hypothesis in the output of fairseq-generate; the best one of a sentence comes first.
HYPOTHESIS = re.compile(r"H-(\d{1,18})\t[^\t]*\t(.*)")
#: Target languages whose compounds the paper's BLEU splits.
COMPOUNDS = ("de",)


def hypotheses(log: Iterable[str]) -> list[str]:
    """Return the best hypothesis of each sentence, as subwords, in the order of the test set.

    Raises InputError if the log of fairseq-generate lacks a sentence.
    """
    best: dict[int, str] = {}
    for line in log:
        if match := HYPOTHESIS.fullmatch(line.rstrip("\n")):
            best.setdefault(int(match[1]), match[2])
    if not best:
        raise InputError("the log has no hypothesis (H-…): give what fairseq-generate printed")
    numbers = sorted(best)
    for wanted, number in enumerate(numbers):
        if wanted != number:
            raise InputError(f"the log has no hypothesis for sentence {wanted} (H-{wanted})")
    return [best[number] for number in numbers]


class Translations(NamedTuple):
    """Raw text: sources (none if they are not known), hypotheses, references; their language."""

    sources: list[str]
    system: list[str]
    references: list[str]
    target_lang: str


def translations(log: Path, data: Path, split: str) -> Translations:
    """Return what fairseq-generate printed as raw text, with the raw references kept in `data`.

    Raises InputError or OSError for a log or data that cannot be used.
    """
    pipeline = TextPipeline.load(data)
    source_lang, target_lang = pipeline.settings.source_lang, pipeline.settings.target_lang
    with open(log, encoding="utf-8", newline="\n") as lines:
        system = [pipeline.decode(line) for line in hypotheses(lines)]
    raw = [f"{split}.raw.{lang}" for lang in (source_lang, target_lang)]
    verify_files(data, read_manifest(data), raw, contents=False)
    sources, references = (list(read_lines(data / name)) for name in raw)
    return Translations(sources, system, references, target_lang)


class PaperTokens:
    """Raw text to the words that the BLEU of 2017 compares.

    Three steps: replace Unicode punctuation, split the text into sacremoses's tokens for the
    target language, and in German make each hyphen inside a word a word of its own (`E-Mail`
    becomes `E ##AT##-##AT## Mail`).

    The tokens of `Tokenizer` differ in rare letters. Scores stay comparable with those of older
    versions, so these tokens stay.
    """

    def __init__(self, target_lang: str) -> None:
        self._normalizer = MosesPunctNormalizer(target_lang)
        self._tokenizer = SacremosesTokenizer(target_lang)
        self._splits = target_lang in COMPOUNDS

    def __call__(self, text: str) -> str:
        """Return the words of one raw line, separated by spaces."""
        text = self._normalizer.replace_unicode_punct(text)
        text = self._tokenizer.tokenize(text, return_str=True, escape=False)
        return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", text) if self._splits else text


def paper_words(target_lang: str) -> str:
    """Return in words what PaperTokens makes of a language."""
    return "Moses tokens" + ", German compounds split" * (target_lang in COMPOUNDS)


def paper_bleu(system: list[str], references: list[str], target_lang: str) -> float:
    """Return the case-sensitive 4-gram BLEU of PaperTokens, without smoothing, of raw text."""
    tokens = PaperTokens(target_lang)
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    ours, theirs = ([tokens(line) for line in side] for side in (system, references))
    return metric.corpus_score(ours, [theirs]).score


@dataclass(frozen=True)
class Scores:
    """The scores of raw text against one raw reference."""

    paper_bleu: float
    bleu: float  #: sacreBLEU
    chrf: float
    signature: str  #: of sacreBLEU
    chrf_signature: str
    exact: float  #: fraction of the sentences that equal their reference
    sentences: int
    words: str  #: that the paper BLEU compares

    def lines(self) -> list[str]:
        """Return a line for each score, with its name and its use."""
        return [
            f"paper BLEU   {self.paper_bleu:.2f}   to compare with Table 2: {self.words}",
            f"sacreBLEU    {self.bleu:.2f}   to compare with today's systems ({self.signature})",
            f"chrF         {self.chrf:.2f}   the same on characters, kinder to inflection "
            f"({self.chrf_signature})",
            f"exact match  {self.exact:.1%}   ({self.sentences:,} sentences)",
        ]


def score(system: list[str], references: list[str], target_lang: str) -> Scores:
    """Return all scores of raw hypotheses against raw references.

    Raises InputError if the lists are empty or differ in length.
    """
    if len(system) != len(references):
        raise InputError(f"{len(system)} hypotheses, but {len(references)} references")
    if not system:
        raise InputError("nothing to score")
    bleu, chrf = BLEU(), CHRF()
    equal = sum(ours == theirs for ours, theirs in zip(system, references, strict=True))
    return Scores(
        paper_bleu(system, references, target_lang),
        bleu.corpus_score(system, [references]).score,
        chrf.corpus_score(system, [references]).score,
        str(bleu.get_signature()),
        str(chrf.get_signature()),
        equal / len(system),
        len(system),
        paper_words(target_lang),
    )


class Chance(NamedTuple):
    """A BLEU, and what chance has to do with it: by bootstrap, over samples of the sentences."""

    bleu: float
    mean: float  #: of the samples
    half_width: float  #: of the 95 % interval around the mean
    p: float | None  #: that it differs from the first system by chance; None for the first one


def by_chance(
    systems: list[list[str]], references: list[str], target_lang: str, samples: int = 1000
) -> dict[str, list[Chance]]:
    """Return what chance has to do with "paper BLEU" and "sacreBLEU" of raw text.

    The seed is sacrebleu's (12345, or the variable SACREBLEU_SEED). It takes memory for as many
    times the sentences as there are samples.
    """
    tokens = PaperTokens(target_lang)
    words = [[tokens(line) for line in side] for side in (*systems, references)]
    plain = BLEU(tokenize="none", smooth_method="none", force=True)
    found = {}
    for name, metric, texts in (
        ("paper BLEU", plain, words),
        ("sacreBLEU", BLEU(), [*systems, references]),
    ):
        named: list = [(f"system {number}", text) for number, text in enumerate(texts[:-1])]
        test: Any = PairedTest(named, {"BLEU": metric}, [texts[-1]], "bs", samples)
        first, *others = test()[1]["BLEU"]
        # of equal scores sacrebleu counts only larger differences, and finds p = 1 / (samples + 1)
        found[name] = [Chance(first.score, float(first.mean), float(first.ci), None)] + [
            Chance(
                other.score,
                float(other.mean),
                float(other.ci),
                1.0 if other.score == first.score else other.p_value,
            )
            for other in others
        ]
    return found


def unknown_words(text: Iterable[str]) -> int:
    """Return how many words are unknown: <unk>, or <<unk>> as fairseq writes it in references."""
    return sum(line.split().count(word) for line in text for word in ("<unk>", "<<unk>>"))


def describe(system: list[str], references: list[str], target_lang: str) -> str:
    """Return the line of `fairseq-generate --scoring`; its references have <unk> for rare words."""
    value = paper_bleu(system, references, target_lang)
    subwords = any("@@" in line or "▁" in line for line in references)
    return (
        f"paper BLEU = {value:.2f} ({target_lang}; against references as the dictionary decodes "
        f"them, {unknown_words(references)} words of them <unk>"
        + (", and SUBWORDS, not words: give --remove-bpe" if subwords else "")
        + "; aiayn score compares with the raw ones)"
    )
