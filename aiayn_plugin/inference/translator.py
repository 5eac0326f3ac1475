"""§6.1 Raw text in, raw text out, with the paper's search."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from ..search import Hypothesis
from ..text.pipeline import TextPipeline
from .predictor import Predictor

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Translation:
    """A translation of a line and its score: log P over the length penalty.

    The score of a line translated in segments is the sum of theirs.
    """

    text: str
    score: float


class Translator(Predictor):
    """A model, its text settings and a search.

    >>> translator = Translator.load("runs/multi30k")  # doctest: +SKIP
    >>> translator.translate(["A man is riding a bicycle."])  # doctest: +SKIP
    ['Ein Mann fährt Fahrrad.']
    """

    pipeline_class = TextPipeline

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Return the best translation of each raw line."""
        return [translations[0].text for translations in self.translate_nbest(lines)]

    def translate_nbest(
        self,
        lines: Sequence[str],
        first: int = 1,
        progress: Callable[[int], object] = lambda sentences: None,
    ) -> list[list[Translation]]:
        """Return the translations of each raw line, best first; at most `nbest`.

        An empty line has an empty translation. A line with more tokens than the model can read is
        translated in segments; the warning numbers lines from `first`. progress is called
        after each batch with its number of sentences. All translations are held in memory, so pass
        a large corpus in chunks of about 10,000 lines. Raises InputError if a sentence has no
        translation.
        """
        if isinstance(lines, str):
            raise TypeError("lines must be a list of lines, not one string")
        segmented = [self._segments(number, line) for number, line in enumerate(lines, start=first)]
        sentences = [segment for segments in segmented for segment in segments]
        results = iter(self.search(sentences, progress))
        return [_join([self._read(next(results)) for _ in segments]) for segments in segmented]

    def _segments(self, number: int, line: str) -> list[Tensor]:
        """Return the tokens of a line, in segments of about equal length if it is too long."""
        subwords, limit = self.pipeline.encode(line).split(), self.max_subwords
        if not subwords:
            return []
        if len(subwords) > limit:
            logger.warning(
                "line %d has %d tokens, more than the limit of %d: it is translated in segments",
                number,
                len(subwords),
                limit,
            )
        size = math.ceil(len(subwords) / math.ceil(len(subwords) / limit))
        return [
            self.token_ids(subwords[start : start + size])
            for start in range(0, len(subwords), size)
        ]

    def _read(self, hypotheses: list[Hypothesis]) -> list[Translation]:
        return [
            Translation(
                self.pipeline.decode(" ".join(self.target.decode(hypothesis.tokens.tolist()))),
                float(hypothesis.score),
            )
            for hypothesis in hypotheses
        ]


def _join(segments: list[list[Translation]]) -> list[Translation]:
    """Return a line's translations: its segments' best ones joined, then the second best, …"""
    if not segments:
        return [Translation("", 0.0)]
    return [
        Translation(" ".join(t.text for t in ranked), sum(t.score for t in ranked))
        for ranked in zip(*segments, strict=False)
    ]
