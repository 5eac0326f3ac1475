"""§6.1 A model and its search: the base class of Translator and Parser."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from ..checkpoints.loading import LoadedModel
from ..errors import InputError
from ..kernels.cpu_runtime import prepare_cpu_for_search
from ..kernels.packing import pack_linear_layers
from ..paper import SearchSettings, paper_search
from ..parsing.grammar import TreeGrammar
from ..search import BeamSearch, Hypothesis
from ..search.decoder_step import AiaynSearchModel
from .run_directory import RunDirectory

P = TypeVar("P", bound="Predictor")


class Predictor:
    """A loaded run directory and a search."""

    pipeline_class: ClassVar[Any]

    def __init__(
        self,
        directory: RunDirectory,
        loaded: LoadedModel,
        max_tokens: int = 2000,
        trees_only: bool = False,
        **options: Any,
    ) -> None:
        """Build the search; the arguments and errors are those of `load`."""
        if max_tokens < 1:
            raise InputError(f"--max-tokens {max_tokens} must be at least 1")
        prepare_cpu_for_search()
        self.directory, self.loaded, self.max_tokens = directory, loaded, max_tokens
        self.pipeline = directory.pipeline
        self.model, self.source, self.target = loaded.model, loaded.source, loaded.target
        parses = self.pipeline.settings.holds_trees
        if trees_only and not parses:
            raise InputError("trees_only needs a model trained on trees")
        self._search = self._build_search(replace(paper_search(parses), **options), trees_only)

    @classmethod
    def load(
        cls: type[P],
        path: str | Path,
        device: str | None = None,
        precision: str = "float32",
        max_tokens: int = 2000,
        trees_only: bool = False,
        user_dir: str | Path | None = None,
        engine: str = "torch",
        **options: Any,
    ) -> P:
        """Return the predictor of a run directory, from a recipe or from `aiayn bundle`.

        device: by default the first GPU, if any. max_tokens: source tokens of a batch,
        padding included. trees_only: restrict a parser's search to trees. user_dir: the
        directory that registers a model class from outside the plugin; its code is executed.
        engine: "torch", or "ctranslate2" for its search on the CPU (CTranslate2Search).
        options: those of fairseq-generate's search (beam, lenpen, nbest, …), by default the
        paper's. Raises InputError or OSError for a directory without a usable model, and for
        invalid options.
        """
        directory = RunDirectory.open(path, cls.pipeline_class.load)
        if unknown := sorted(options.keys() - {field.name for field in fields(SearchSettings)}):
            raise InputError(f"{unknown[0]} is not an option of the search")
        if user_dir is not None:
            from ..fairseq_plugin.user_models import import_user_dir

            import_user_dir(user_dir)
        loaded = directory.load_model(device, precision, user_dir is not None, engine)
        return cls(directory, loaded, max_tokens, trees_only, **options)

    def _build_search(self, settings: SearchSettings, trees_only: bool) -> Any:
        """Return a BeamSearch, or a CTranslate2Search if the model was loaded for that engine."""
        if self.loaded.translator is not None:
            if trees_only:
                raise InputError("trees_only needs the torch engine")
            from .ctranslate2_search import CTranslate2Search

            return CTranslate2Search(self.loaded, settings)
        pack_linear_layers(self.model)
        constraint = TreeGrammar(self.source.symbols, self.target.symbols) if trees_only else None
        model = AiaynSearchModel(self.model.encoder, self.model.decoder)
        return BeamSearch(settings, [model], constraint=constraint)

    @property
    def max_subwords(self) -> int:
        """Subwords of the longest sentence the model can read, without the end symbol."""
        return self.loaded.max_source_tokens - 1

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
