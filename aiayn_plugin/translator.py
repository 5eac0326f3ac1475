"""§6.1: raw text in, raw text out, with a model directory and the paper's search."""

import logging
import math
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .boundary.loading import SEARCH_SETTINGS, check_device, load_for_translation, to_device
from .boundary.model import Transformer
from .checkpoints.directory import locate, task_settings
from .errors import InputError
from .text.pipeline import TextPipeline

logger = logging.getLogger(__name__)

PRECISIONS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Translation:
    """One translation of a line, and its score: log P over the length penalty."""

    text: str
    score: float


class Translator:
    """A model, its text settings and a search.

    >>> translator = Translator.load("runs/multi30k")  # doctest: +SKIP
    >>> translator.translate(["A man is riding a bicycle."])  # doctest: +SKIP
    ['Ein Mann fährt Fahrrad.']
    """

    def __init__(
        self, task: Any, model: Transformer, pipeline: TextPipeline, max_tokens: int, search: dict
    ) -> None:
        """search: settings of fairseq-generate's search, as keywords (beam, lenpen, nbest, …).

        What is missing is the paper's. Raises InputError for a search that cannot be.
        """
        if max_tokens < 1:
            raise InputError(f"--max-tokens {max_tokens} must be at least 1")
        self.task, self.model, self.pipeline = task, model, pipeline
        self.max_tokens = max_tokens
        self._generator = task.build_generator([model], Namespace(**search))

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
        if odd := sorted(search.keys() - SEARCH_SETTINGS):
            raise InputError(f"{odd[0]} is no setting of the search")
        if precision not in PRECISIONS:
            raise InputError(f"precision {precision!r} is none of {', '.join(PRECISIONS)}")
        checkpoint, data = locate(Path(path))
        pipeline = TextPipeline.load(data)
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        check_device(device)
        settings = pipeline.settings
        task, model = load_for_translation(
            checkpoint, task_settings(checkpoint), data, settings.source_lang, settings.target_lang
        )
        model.to(device=device, dtype=PRECISIONS[precision]).eval()
        return cls(task, model, pipeline, max_tokens, search)

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
        limit = self.task.cfg.max_source_positions
        limit = min(limit, self.model.max_positions()[0]) - 1  # one is for the end symbol
        if len(words) > limit:
            logger.warning("line %d has %d tokens, more than %d: it is translated in pieces",
                           number, len(words), limit)
        count = max(1, math.ceil(len(words) / limit)) if words else 0
        size = math.ceil(len(words) / count) if count else 0
        return [
            self.task.source_dictionary.encode_line(
                " ".join(words[i * size : (i + 1) * size]), add_if_not_exist=False
            ).long()
            for i in range(count)
        ]

    def search(self, sentences: list[torch.Tensor]) -> Iterator[tuple[list[int], list]]:
        """Yield numbers and hypotheses of batches with similar lengths, longest first.

        sentences: the tokens of each, the end symbol the last. A hypothesis is fairseq's
        dictionary.
        """
        if not sentences:
            return
        lengths = [len(sentence) for sentence in sentences]
        batches = self.task.get_batch_iterator(
            self.task.build_dataset_for_inference(sentences, lengths),
            max_tokens=max(self.max_tokens, *lengths),
            disable_iterator_cache=True,
        ).next_epoch_itr(shuffle=False)
        device = next(self.model.parameters()).device
        for sample in batches:
            numbers = sample["id"].tolist()
            sample = to_device(sample, device)
            yield numbers, self.task.inference_step(self._generator, [self.model], sample)

    def _read(self, hypotheses: list[dict]) -> list[Translation]:
        string = self.task.target_dictionary.string
        return [
            Translation(self.pipeline.decode(string(h["tokens"])), float(h["score"]))
            for h in hypotheses
        ]


def _joined(pieces: list[list[Translation]]) -> list[Translation]:
    """Return the translations of a line: the best ones of its pieces together, and so on."""
    if not pieces:
        return [Translation("", 0.0)]
    return [
        Translation(" ".join(part.text for part in parts), sum(part.score for part in parts))
        for parts in zip(*pieces, strict=False)
    ]
