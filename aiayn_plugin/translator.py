"""§6.1: raw text in, raw text out, with a model directory and the paper's search."""

import logging
import math
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, tasks, utils
from fairseq.dataclass.configs import GenerationConfig
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from .architectures import ARCHITECTURES
from .checkpoint import configuration, load
from .text import TextPipeline
from .transformer import Transformer

logger = logging.getLogger(__name__)

#: The checkpoint of a model directory.
MODEL_FILE = "model.pt"
OURS = {"aiayn_transformer", *ARCHITECTURES}
PRECISIONS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def files(model_dir: Path, checkpoint: Path | None = None) -> tuple[Path, Path]:
    """The checkpoint of a model directory, and where its dictionaries, codes and text.json are: a
    recipe keeps them in data/, a bundle beside the model.

    Raises ValueError where there is no checkpoint.
    """
    checkpoint = checkpoint or model_dir / MODEL_FILE
    if not checkpoint.is_file():
        raise ValueError(f"{checkpoint} is missing: give a directory that a recipe or aiayn bundle "
                         "made")
    data = model_dir / "data"
    return checkpoint, data if data.is_dir() else model_dir


def checked(checkpoint: Path) -> dict[str, Any]:
    """The task's settings in a checkpoint of one of the plugin's models.

    Raises ValueError for any other checkpoint, and for another task than translation.
    """
    try:
        cfg, architecture = configuration(load(checkpoint))
    except ValueError as error:
        raise ValueError(f"{checkpoint}: {error}") from None
    if architecture not in OURS:
        raise ValueError(f"{checkpoint}: a model of architecture {architecture}, none of the "
                         "plugin's; aiayn convert turns fairseq's transformer into one")
    name = cfg["task"]["_name"]
    if name not in ("translation", "aiayn_translation"):
        raise ValueError(f"{checkpoint}: of the task {name}, not of translation")
    return cfg["task"]


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
        known = {option.name for option in fields(GenerationConfig)}
        if odd := sorted(search.keys() - known):
            raise ValueError(f"{odd[0]} is no setting of the search")
        if precision not in PRECISIONS:
            raise ValueError(f"precision {precision!r} is none of {', '.join(PRECISIONS)}")
        checkpoint, data = files(Path(path))
        pipeline = TextPipeline.load(data)
        settings = pipeline.settings
        overrides = {"_name": "aiayn_translation", "data": str(data), "length_penalty": "gnmt",
                     "source_lang": settings.source_lang, "target_lang": settings.target_lang}
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            torch.empty(0, device=device)
        except (AssertionError, RuntimeError) as error:  # what torch raises for what is not there
            raise ValueError(f"device {device!r} cannot be used: {error}") from None
        try:
            task = tasks.setup_task(OmegaConf.create({**checked(checkpoint), **overrides}))
            (model,), _ = checkpoint_utils.load_model_ensemble(
                [str(checkpoint)], arg_overrides={"data": str(data)}, task=task
            )
        except SystemExit as error:  # how a command of fairseq ends
            raise ValueError(f"{checkpoint}: {error}") from None
        except OmegaConfBaseException as error:
            raise ValueError(f"{checkpoint}: made by another version of the plugin: {error}"
                             ) from None
        model.to(device=device, dtype=PRECISIONS[precision]).eval()
        return cls(task, model, pipeline, max_tokens, search)

    def translate(self, lines: Sequence[str]) -> list[str]:
        """The best translation of each raw line, in their order."""
        return [found[0].text for found in self.translate_nbest(lines)]

    def translate_nbest(
        self,
        lines: Sequence[str],
        first: int = 1,
        progress: Callable[[int], object] = lambda sentences: None,
    ) -> list[list[Translation]]:
        """The translations of each raw line, best first; as many as the search keeps.

        A line without a word stays empty. A longer line than the model has positions for is
        translated in pieces, and a warning says so; first is the number of the first line in it.
        progress is called after each batch with how many sentences it had. Raises SettingError
        where no translation is possible.
        """
        if isinstance(lines, str):
            raise TypeError("lines must be a list of lines, not one string")
        pieces = [self._pieces(number, line) for number, line in enumerate(lines, start=first)]
        flat = [piece for of_line in pieces for piece in of_line]
        found: dict[int, list[Translation]] = {}
        for numbers, hypotheses in self._search(flat):
            found.update(zip(numbers, map(self._read, hypotheses), strict=True))
            progress(len(numbers))
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
            yield numbers, self.task.translate(self._generator, [self.model], sample)

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
