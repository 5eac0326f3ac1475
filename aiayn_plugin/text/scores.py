"""§6.1: the scores of a translation, with BLEU as computed in 2017 and today."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest
from sacremoses import MosesPunctNormalizer

from ..errors import InputError
from .lines import same_words
from .settings import rules_language
from .tokenizer import SacremosesTokenizer

#: Target languages whose compounds are split for the paper's BLEU.
COMPOUNDS = ("de",)
#: Maximum number of sentences to resample; the samples of a larger set take gigabytes.
MAX_RESAMPLED = 5_000
#: An unknown word in references. fairseq writes <<unk>> for it, so that it never matches
#: <unk> in a hypothesis; tokenisers would split both into the same symbols.
UNKNOWN = "\ue000"


class PaperTokens:
    """Splits raw text into the words that the BLEU of 2017 compares.

    Three steps: replace Unicode punctuation, split the text into sacremoses's tokens for the
    target language, and in German split words at hyphens (`E-Mail` becomes `E ##AT##-##AT## Mail`;
    of two hyphens around a single character only the first, because matches of the 2017 regular
    expression do not overlap). `Tokenizer` differs from sacremoses in some characters; the scores
    keep sacremoses's tokens, for comparability.
    """

    def __init__(self, target_lang: str) -> None:
        target_lang = rules_language(target_lang)
        self._normalizer = MosesPunctNormalizer(target_lang)
        self._tokenizer = SacremosesTokenizer(target_lang)
        self._splits_compounds = target_lang in COMPOUNDS

    def __call__(self, text: str) -> str:
        """Return the words of one raw line, separated by spaces."""
        text = self._normalizer.replace_unicode_punct(text)
        text = self._tokenizer.tokenize(text, return_str=True, escape=False)
        if self._splits_compounds:
            return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", text)
        return text


def paper_metric(target_lang: str) -> BLEU:
    """Return the metric of the paper BLEU: unsmoothed, case-sensitive 4-gram BLEU of raw text."""
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    metric.tokenizer = PaperTokens(target_lang)
    return metric


def paper_bleu(system: list[str], references: list[str], target_lang: str) -> float:
    """Return the paper BLEU of raw text, by paper_metric."""
    return paper_metric(target_lang).corpus_score(system, [references]).score


def sacrebleu_metric(target_lang: str) -> BLEU:
    """Return sacreBLEU with its default tokenizer for a language.

    It is 13a, except for Chinese (characters), Japanese and Korean (words). Raises InputError if
    the package that splits Japanese or Korean is not installed.
    """
    target_lang = rules_language(target_lang)
    try:
        return BLEU(trg_lang=target_lang)
    except RuntimeError:
        raise InputError(
            f"sacreBLEU lacks the package that splits {target_lang!r} into words: "
            f"pip install 'sacrebleu[{target_lang}]'"
        ) from None


@dataclass(frozen=True)
class Scores:
    """The scores of raw text against one raw reference."""

    paper_bleu: float
    bleu: float  #: sacreBLEU
    chrf: float
    signature: str  #: sacreBLEU's
    chrf_signature: str
    exact: float  #: fraction of the sentences that equal their reference
    sentences: int
    words: str  #: what the paper BLEU compares

    def lines(self) -> list[str]:
        """Return a line for each score, with its name and its use."""
        count = f"{self.sentences:,}"
        return [
            f"paper BLEU   {self.paper_bleu:.2f}   to compare with Table 2: {self.words}",
            f"sacreBLEU    {self.bleu:.2f}   to compare with today's systems ({self.signature})",
            f"chrF         {self.chrf:.2f}   character n-gram F-score, more tolerant of inflection "
            f"({self.chrf_signature})",
            f"exact match  {self.exact:.1%}   ({count} sentence{'s' * (count != '1')})",
        ]


def _describe_words(language: str) -> str:
    """Return what the paper BLEU compares in a language."""
    if language in ("zh", "ja"):
        return "Moses tokens, which are whole clauses in this language"
    return "Moses tokens" + ", German compounds split" * (language in COMPOUNDS)


def score(system: list[str], references: list[str], target_lang: str) -> Scores:
    """Return all scores of raw hypotheses against raw references.

    Raises InputError if the lists are empty or differ in length, and as sacrebleu_metric does.
    """
    if len(system) != len(references):
        raise InputError(f"{len(system)} hypotheses, but {len(references)} references")
    if not system:
        raise InputError("nothing to score")
    bleu, chrf = sacrebleu_metric(target_lang), CHRF()
    equal = sum(map(same_words, system, references))
    return Scores(
        paper_bleu(system, references, target_lang),
        bleu.corpus_score(system, [references]).score,
        chrf.corpus_score(system, [references]).score,
        str(bleu.get_signature()),
        str(chrf.get_signature()),
        equal / len(system),
        len(system),
        _describe_words(rules_language(target_lang)),
    )


class Bootstrap(NamedTuple):
    """A BLEU score and its variation over bootstrap samples of the sentences."""

    bleu: float
    mean: float  #: of the samples
    half_width: float  #: of the 95% interval around the mean
    p: float | None  #: of a difference at least this large by chance; None for the first system


def resample(
    systems: Sequence[list[str]], references: list[str], target_lang: str, samples: int = 1000
) -> dict[str, list[Bootstrap]]:
    """Return the "paper BLEU" and "sacreBLEU" of each system of raw text, with p-values.

    The seed is sacrebleu's (12345, or the variable SACREBLEU_SEED). The memory needed grows with
    the product of sentences and samples.
    """
    named: list = [(f"system {number}", system) for number, system in enumerate(systems)]
    by_metric = {}
    for name, metric in (
        ("paper BLEU", paper_metric(target_lang)),
        ("sacreBLEU", sacrebleu_metric(target_lang)),
    ):
        test: Any = PairedTest(named, {"BLEU": metric}, [references], "bs", samples)
        results = test()[1]["BLEU"]
        by_metric[name] = [
            Bootstrap(
                result.score,
                float(result.mean),
                float(result.ci),
                # sacrebleu counts larger differences only, so equal scores would get the smallest p
                1.0 if number and result.score == results[0].score else result.p_value,
            )
            for number, result in enumerate(results)
        ]
    return by_metric


def describe_paper_bleu(system: list[str], references: list[str], target_lang: str) -> str:
    """Return the line of `fairseq-generate --scoring`; references have UNKNOWN for rare words."""
    value, metric = paper_bleu(system, references, target_lang), sacrebleu_metric(target_lang)
    sacrebleu = metric.corpus_score(system, [references]).score
    subwords = any("@@" in line or "▁" in line for line in references)
    return (
        f"paper BLEU = {value:.2f} ({target_lang}; against references decoded from token IDs, "
        f"unknown words: {sum(UNKNOWN in word for line in references for word in line.split())}"
        + (", and SUBWORDS, not words: give --remove-bpe" if subwords else "")
        + f"; aiayn score uses the raw references); sacreBLEU against the same {sacrebleu:.2f} "
        f"({metric.get_signature()})"
    )
