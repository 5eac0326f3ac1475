"""§6.1: raw text in, raw text out, with a model directory and the paper's search."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..text.pipeline import TextPipeline
from .run_directory import Searcher, load

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Translation:
    """One translation of a line, and its score: log P over the length penalty."""

    text: str
    score: float


class Translator(Searcher):
    """A model, its text settings and a search.

    >>> translator = Translator.load("runs/multi30k")  # doctest: +SKIP
    >>> translator.translate(["A man is riding a bicycle."])  # doctest: +SKIP
    ['Ein Mann fährt Fahrrad.']
    """

    pipeline: TextPipeline

    @classmethod
    def load(
        cls,
        path: str | Path,
        device: str | None = None,
        precision: str = "float32",
        max_tokens: int = 2000,
        **search: Any,
    ) -> "Translator":
        """Return the translator of a model directory, from a recipe or from `aiayn bundle`.

        device: default: the first GPU, if there is one. max_tokens: source tokens of a batch, with
        padding. Raises InputError or OSError for a directory that holds no such model.
        """
        return cls(load(path, TextPipeline.load, device, precision), max_tokens, search)

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Return the best translation of each raw line, in their order."""
        return [translations[0].text for translations in self.translate_nbest(lines)]

    def translate_nbest(
        self,
        lines: Sequence[str],
        first: int = 1,
        progress: Callable[[int], object] = lambda sentences: None,
    ) -> list[list[Translation]]:
        """Return the translations of each raw line, best first; as many as the search keeps.

        A line without a word stays empty. A line with more tokens than the model has positions is
        translated in pieces, and a warning says so; `first` is the number of the first line in it.
        progress is called after each batch with its number of sentences. Raises InputError if no
        translation is possible.
        """
        if isinstance(lines, str):
            raise TypeError("lines must be a list of lines, not one string")
        pieces = [self._pieces(number, line) for number, line in enumerate(lines, start=first)]
        flat = [piece for of_line in pieces for piece in of_line]
        translations: dict[int, list[Translation]] = {}
        for numbers, hypotheses in self.search(flat):
            translations.update(zip(numbers, map(self._read, hypotheses), strict=True))
            progress(len(numbers))
        number = iter(range(len(flat)))
        return [_joined([translations[next(number)] for _ in of_line]) for of_line in pieces]

    def _pieces(self, number: int, line: str) -> list[torch.Tensor]:
        """Return the tokens of a line, in pieces of about equal length if it is too long."""
        words = self.pipeline.encode(line).split()
        limit = self.longest
        if len(words) > limit:
            logger.warning(
                "line %d has %d tokens, more than %d: it is translated in pieces",
                number,
                len(words),
                limit,
            )
        count = max(1, math.ceil(len(words) / limit)) if words else 0
        size = math.ceil(len(words) / count) if count else 0
        return [self.numbers(words[i * size : (i + 1) * size]) for i in range(count)]

    def _read(self, hypotheses: list[dict]) -> list[Translation]:
        pieces = (self.target.decode(h["tokens"].tolist()) for h in hypotheses)
        return [
            Translation(self.pipeline.decode(" ".join(of_one)), float(h["score"]))
            for of_one, h in zip(pieces, hypotheses, strict=True)
        ]


def _joined(pieces: list[list[Translation]]) -> list[Translation]:
    """Return the translations of a line: the best ones of its pieces together, and so on."""
    if not pieces:
        return [Translation("", 0.0)]
    return [
        Translation(" ".join(part.text for part in parts), sum(part.score for part in parts))
        for parts in zip(*pieces, strict=False)
    ]
