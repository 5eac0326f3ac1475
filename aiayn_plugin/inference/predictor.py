"""§6.1 A model and its search: the base class of Translator and Parser."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ..checkpoints.loading import LoadedModel
from ..errors import InputError
from ..kernels.packing import pack_linear_layers
from ..paper import PARSING_SEARCH, SearchSettings
from ..search import BeamSearch, Hypothesis
from ..search.decoder_step import TransformerModel
from .run_directory import RunDirectory

#: Search options that do not need fairseq, which takes seconds to import.
OWN_OPTIONS = {field.name for field in fields(SearchSettings)}


class Predictor:
    """A loaded run directory and a search."""

    def __init__(
        self,
        directory: RunDirectory,
        loaded: LoadedModel,
        max_tokens: int = 2000,
        trees_only: bool = False,
        **options: Any,
    ) -> None:
        """Build the search from options of fairseq-generate (beam, lenpen, nbest, …).

        Defaults are the paper's. max_tokens: source tokens of a batch, padding included.
        trees_only: restrict the search to trees. Raises InputError for invalid options.
        """
        if max_tokens < 1:
            raise InputError(f"--max-tokens {max_tokens} must be at least 1")
        self.directory, self.loaded, self.max_tokens = directory, loaded, max_tokens
        self.pipeline = directory.pipeline
        self.model, self.source, self.target = loaded.model, loaded.source, loaded.target
        self._search: Any
        if needs_fairseq(options):
            from ..fairseq_plugin.fairseq_search import FairseqSearch

            self._search = FairseqSearch(directory, loaded.model, options, trees_only)
        else:
            pack_linear_layers(self.model)
            paper = PARSING_SEARCH if self.pipeline.settings.holds_trees else SearchSettings()
            self._search = BeamSearch(
                replace(paper, **options),
                [TransformerModel(self.model.encoder, self.model.decoder)],
                constraint=self._grammar() if trees_only else None,
            )

    @classmethod
    def _load(
        cls,
        directory: RunDirectory,
        device: str | None,
        precision: str,
        max_tokens: int,
        options: dict[str, Any],
        trees_only: bool = False,
    ) -> Any:
        """Load the model of a directory, through fairseq if the options need fairseq's search."""
        load = None
        if needs_fairseq(options):
            from ..fairseq_plugin.fairseq_search import check_options, load_fairseq_model

            check_options(options)
            load = load_fairseq_model
        loaded = directory.load_model(device, precision, load)
        return cls(directory, loaded, max_tokens, trees_only, **options)

    def _grammar(self) -> Any:
        from ..parsing.grammar import TreeGrammar

        return TreeGrammar(self.source.symbols, self.target.symbols)

    @property
    def max_source_tokens(self) -> int:
        """Tokens of the longest sentence the model can read, without the end symbol."""
        return self.loaded.max_source_tokens - 1

    @cached_property
    def task(self) -> Any:
        """fairseq's task, which reads the splits of the model's data."""
        from ..fairseq_plugin.fairseq_search import load_task

        return load_task(self.directory)

    def token_ids(self, subwords: Sequence[str]) -> Tensor:
        """Return the token IDs of a sentence, the end symbol last."""
        return torch.tensor(self.source.encode(subwords))

    def search(
        self,
        sentences: Sequence[Tensor],
        progress: Callable[[int], object] = lambda sentences: None,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of sentences of token IDs, best first; see BeamSearch.search."""
        return self._search.search(sentences, self.max_tokens, progress)


def needs_fairseq(options: dict[str, Any]) -> bool:
    """Return whether any of the search options needs fairseq."""
    return not options.keys() <= OWN_OPTIONS
