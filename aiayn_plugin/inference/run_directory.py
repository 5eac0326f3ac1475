"""§6.1: a model directory and a search: what translating and parsing share."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..checkpoints.bundle import locate
from ..checkpoints.loading import LoadedModel, load_model
from ..errors import InputError
from ..kernels.device import check_device
from ..model.int8 import in_int8
from ..model.packing import pack
from ..paper import PARSING_SEARCH, SearchSettings
from ..parsing.grammar import TreeGrammar
from ..search.batching import batches, padded
from ..search.oom import WarningOfMemory, in_halves
from ..search.search import Search
from ..text.dictionary import SPECIAL_SYMBOLS
from ..text.settings import MAX_TREE_DEPTH

PRECISIONS = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int8": torch.float32,
}  # but for the products (model/int8.py)


@dataclass(frozen=True)
class Found:
    """What was found in a model directory, and where and how it computes."""

    checkpoint: Path
    data: Path
    loaded: LoadedModel
    pipeline: Any
    device: str
    precision: str


class Searcher:
    """A model, what prepares its text, and a search."""

    def __init__(
        self, found: Found, max_tokens: int, search: dict[str, Any], trees_only: bool = False
    ) -> None:
        """search: settings of fairseq-generate's search, as keywords (beam, lenpen, nbest, …).

        What is missing is the paper's. trees_only: find nothing but trees. Raises InputError for a
        search that cannot be.
        """
        if max_tokens < 1:
            raise InputError(f"--max-tokens {max_tokens} must be at least 1")
        self.found, self.pipeline, self.max_tokens = found, found.pipeline, max_tokens
        self.model, self.source, self.target = (
            found.loaded.model,
            found.loaded.source,
            found.loaded.target,
        )
        self._warn_of_memory = WarningOfMemory()
        trees = found.pipeline.settings.holds_trees
        paper = {**(PARSING_SEARCH if trees else SearchSettings()).options(), "nbest": 1}
        self.hypotheses: Callable[[Tensor], list[list[dict]]]
        if search.keys() <= paper.keys():
            pack(self.model.encoder, self.model.decoder)
            special = self.target.pad, self.target.eos, self.target.unk
            grammar = self._grammar() if trees_only else None
            self.hypotheses = Search(self.model, {**paper, **search}, special, grammar).hypotheses
        else:
            # fairseq's other settings and searches are fairseq's, which takes seconds to import.
            from ..fairseq_plugin.fairseq_search import fairseqs_search

            self.hypotheses = fairseqs_search(found, search, trees_only)

    def _grammar(self) -> TreeGrammar:
        return TreeGrammar(
            self.source.symbols,
            self.target.symbols,
            len(SPECIAL_SYMBOLS),
            self.target.eos,
            deepest=MAX_TREE_DEPTH - 2,
        )

    @property
    def longest(self) -> int:
        """The source tokens, without the end symbol, of the longest sentence."""
        return self.found.loaded.max_source_tokens - 1

    @cached_property
    def task(self) -> Any:
        """fairseq's task of the model's data, which knows its splits."""
        from ..fairseq_plugin.fairseq_search import task_of

        return task_of(self.found)

    def numbers(self, pieces: Sequence[str]) -> Tensor:
        """Return the tokens of a sentence of subwords, with the end symbol."""
        return torch.tensor(self.source.encode(pieces))

    def search(self, sentences: list[Tensor]) -> Iterator[tuple[list[int], list]]:
        """Yield numbers and hypotheses of batches with similar lengths, longest first.

        sentences: the tokens of each, the end symbol the last. A hypothesis is fairseq's
        dictionary. What memory is too small for is searched in halves. Raises InputError if it is
        too small for one sentence.
        """
        device = next(self.model.parameters()).device
        for numbers in batches(list(map(len, sentences)), self.max_tokens):
            source = padded([sentences[number] for number in numbers], self.source.pad)
            batch = {"net_input": {"src_tokens": source.to(device)}}
            yield numbers, in_halves(self._find, batch, None, self._warn_of_memory)

    def _find(self, batch: dict[str, Any], _: Tensor | None) -> list[list[dict]]:
        return self.hypotheses(batch["net_input"]["src_tokens"])


def load(
    path: str | Path, settings: Callable[[Path], Any], device: str | None, precision: str
) -> Found:
    """Return what a model directory holds, with the model on its device.

    settings: gives a pipeline for a directory of data; it has `settings`. device: default: the
    first GPU, if there is one. Raises InputError or OSError for a directory that holds no such
    model.
    """
    if precision not in PRECISIONS:
        raise InputError(f"precision {precision!r} is none of {', '.join(PRECISIONS)}")
    checkpoint, data = locate(Path(path))
    pipeline = settings(data)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    check_device(device)
    languages = pipeline.settings.source_lang, pipeline.settings.target_lang
    loaded = load_model(checkpoint, data, *languages)
    loaded.model.to(device=device, dtype=PRECISIONS[precision])
    if precision == "int8":
        in_int8(loaded.model.encoder, loaded.model.decoder)
    return Found(checkpoint, data, loaded, pipeline, device, precision)
