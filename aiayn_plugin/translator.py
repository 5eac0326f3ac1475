"""§6.1: raw text in, raw text out, with a model directory and the paper's search."""

import logging
import math
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, tasks, utils
from omegaconf import OmegaConf

from .architectures import ARCHITECTURES
from .checkpoint import load
from .text import TextPipeline
from .transformer import Transformer

logger = logging.getLogger(__name__)

#: The checkpoint of a model directory.
MODEL_FILE = "model.pt"
OURS = {"aiayn_transformer", *ARCHITECTURES}
PRECISIONS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def text_directory(model_dir: Path) -> Path:
    """Where a model directory keeps dictionaries, codes and text.json: a recipe in data/, a bundle
    beside the model."""
    data = model_dir / "data"
    return data if data.is_dir() else model_dir


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
        """search: settings of fairseq-generate's search, as keywords (beam, lenpen, nbest, …); what
        is missing is the paper's. Raises SettingError for a search that cannot be."""
        self.task, self.model, self.pipeline = task, model, pipeline
        self.max_tokens = max_tokens
        self._generator = task.searcher([model], Namespace(**search))

    @classmethod
    def load(
        cls,
        path: str | Path,
        device: str | None = None,
        precision: str = "float32",
        max_tokens: int = 2000,
        **search: Any,
    ) -> "Translator":
        """The translator of a model directory, which a recipe of examples/ or `aiayn bundle` made.

        device: default: the first GPU, where there is one. max_tokens: source tokens of a batch,
        with padding. Raises ValueError or OSError for a directory that holds no such model.
        """
        directory = Path(path)
        checkpoint = directory / MODEL_FILE
        if not checkpoint.is_file():
            raise ValueError(f"{directory}: no {MODEL_FILE} in it: give a directory that a recipe "
                             "or aiayn bundle made")
        data = text_directory(directory)
        pipeline = TextPipeline.load(data)
        cfg = load(checkpoint).get("cfg")
        if cfg is None or cfg["model"]["_name"] not in OURS:
            raise ValueError(f"{checkpoint}: not a checkpoint of one of the plugin's models; aiayn "
                             "convert turns fairseq's into one")
        name = cfg["task"]["_name"]
        if name not in ("translation", "aiayn_translation"):
            raise ValueError(f"{checkpoint}: of the task {name}, not of translation")
        settings = pipeline.settings
        overrides = {"_name": "aiayn_translation", "data": str(data),
                     "source_lang": settings.source_lang, "target_lang": settings.target_lang}
        task = tasks.setup_task(OmegaConf.create({**cfg["task"], **overrides}))
        (model,), _ = checkpoint_utils.load_model_ensemble(
            [str(checkpoint)], arg_overrides={"data": str(data)}, task=task
        )
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        model.to(device=device, dtype=PRECISIONS[precision]).eval()
        return cls(task, model, pipeline, max_tokens, search)

    def translate(self, lines: Sequence[str]) -> list[str]:
        """The best translation of each raw line, in their order."""
        return [found[0].text for found in self.translate_nbest(lines)]

    def translate_nbest(self, lines: Sequence[str]) -> list[list[Translation]]:
        """The translations of each raw line, best first; as many as the search keeps.

        A line without a word stays empty. A longer line than the model has positions for is
        translated in pieces, and a warning says so.
        """
        pieces = [self._pieces(number, line) for number, line in enumerate(lines, start=1)]
        flat = [piece for of_line in pieces for piece in of_line]
        found: dict[int, list[Translation]] = {}
        for numbers, hypotheses in self._search(flat):
            found.update(zip(numbers, map(self._read, hypotheses), strict=True))
        done = iter(range(len(flat)))
        return [_joined([found[next(done)] for _ in of_line]) for of_line in pieces]

    def _pieces(self, number: int, line: str) -> list[torch.Tensor]:
        words = self.pipeline.encode(line).split()
        limit = self.task.cfg.max_source_positions
        limit = min(limit, self.model.max_positions()[0]) - 1  # and the end symbol
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

    def _search(self, sentences: list[torch.Tensor]) -> Iterator[tuple[list[int], list]]:
        """Batches of like length, longest first: numbers of sentences, and what was found."""
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
            sample = utils.apply_to_sample(lambda x: x.to(device), sample)
            yield numbers, self.task.inference_step(self._generator, [self.model], sample)

    def _read(self, hypotheses: list[dict]) -> list[Translation]:
        string = self.task.target_dictionary.string
        return [
            Translation(self.pipeline.decode(string(h["tokens"])), float(h["score"]))
            for h in hypotheses
        ]


def _joined(pieces: list[list[Translation]]) -> list[Translation]:
    """The translations of a line from those of its pieces: the best with the best, and so on."""
    if not pieces:
        return [Translation("", 0.0)]
    return [
        Translation(" ".join(part.text for part in parts), sum(part.score for part in parts))
        for parts in zip(*pieces, strict=False)
    ]
