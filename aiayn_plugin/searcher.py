"""§6.1: a model directory and a search: what translating and parsing share."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from .boundary.loading import SEARCH_SETTINGS, check_device, load_for_translation, to_device
from .boundary.model import Transformer
from .checkpoints.directory import locate, task_settings
from .errors import InputError

PRECISIONS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class Searcher:
    """A model, what prepares its text, and a search."""

    def __init__(
        self, task: Any, model: Transformer, pipeline: Any, max_tokens: int, search: dict
    ) -> None:
        """search: settings of fairseq-generate's search, as keywords (beam, lenpen, nbest, …).

        What is missing is the paper's. Raises InputError for a search that cannot be.
        """
        if max_tokens < 1:
            raise InputError(f"--max-tokens {max_tokens} must be at least 1")
        if odd := sorted(search.keys() - SEARCH_SETTINGS):
            raise InputError(f"{odd[0]} is no setting of the search")
        self.task, self.model, self.pipeline = task, model, pipeline
        self.max_tokens = max_tokens
        self._generator = task.build_generator([model], Namespace(**search))

    @property
    def longest(self) -> int:
        """The source tokens, without the end symbol, of the longest sentence."""
        limit = self.task.cfg.max_source_positions
        return min(limit, self.model.max_positions()[0]) - 1

    def numbers(self, pieces: Sequence[str]) -> torch.Tensor:
        """Return the tokens of a sentence of subwords, with the end symbol."""
        line = " ".join(pieces)
        return self.task.source_dictionary.encode_line(line, add_if_not_exist=False).long()

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


def load(
    path: str | Path, settings: Callable[[Path], Any], device: str | None, precision: str,
    **of_task: Any,
) -> tuple[Any, Transformer, Any]:  # fmt: skip
    """Return the task, the model and the text's pipeline of a model directory.

    settings: gives a pipeline for a directory of data; it has `settings`. device: default: the
    first GPU, if there is one. of_task: settings of the task. Raises InputError or OSError for a
    directory that holds no such model.
    """
    if precision not in PRECISIONS:
        raise InputError(f"precision {precision!r} is none of {', '.join(PRECISIONS)}")
    checkpoint, data = locate(Path(path))
    pipeline = settings(data)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    check_device(device)
    languages = pipeline.settings.source_lang, pipeline.settings.target_lang
    task, model = load_for_translation(
        checkpoint, {**task_settings(checkpoint), **of_task}, data, *languages
    )
    model.to(device=device, dtype=PRECISIONS[precision]).eval()
    return task, model, pipeline
