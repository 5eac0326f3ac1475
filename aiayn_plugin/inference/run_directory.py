"""A run directory: the checkpoint, the data and the text settings of one trained model."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ..checkpoints.bundle import locate
from ..checkpoints.loading import LoadedModel, load_model
from ..errors import InputError
from ..kernels.device import check_device, default_device
from ..kernels.int8 import quantize_linear_layers

#: With int8, the model is loaded in float32, and its linear layers are then quantised.
PRECISIONS = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int8": torch.float32,
}
#: The libraries that can run the search.
ENGINES = ("torch", "ctranslate2")


@dataclass(frozen=True)
class RunDirectory:
    """The files of a model that a recipe trained or `aiayn bundle` packed."""

    checkpoint: Path
    data: Path  #: holds the dictionaries, the subword codes and text.json
    pipeline: Any  #: TextPipeline, or ParsingPipeline for trees

    @classmethod
    def open(cls, path: str | Path, load_pipeline: Callable[[Path], Any]) -> "RunDirectory":
        """Return the run directory at a path; load_pipeline reads the text settings of its data.

        Raises InputError or OSError for a directory without a usable model.
        """
        checkpoint, data = locate(Path(path))
        return cls(checkpoint, data, load_pipeline(data))

    def load_model(
        self,
        device: str | None = None,
        precision: str = "float32",
        with_fairseq: bool = False,
        engine: str = "torch",
    ) -> LoadedModel:
        """Return the model, on its device and in its precision.

        device: by default the first GPU, if any; the CPU for int8. with_fairseq: load the
        model class that is registered with fairseq, as custom models need. engine:
        "ctranslate2" adds its translator, which uses the CPU; the model stays in float32. Raises
        InputError for an unusable device, checkpoint, dictionary or engine.
        """
        if precision not in PRECISIONS:
            raise InputError(f"precision {precision!r} is not one of {', '.join(PRECISIONS)}")
        if engine not in ENGINES:
            raise InputError(f"engine {engine!r} is not one of {', '.join(ENGINES)}")
        if engine == "ctranslate2":
            if with_fairseq or (device or "cpu") != "cpu":
                raise InputError(
                    "--engine ctranslate2 uses the CPU and the plugin's own models: leave out "
                    "--device and --user-dir"
                )
            return self._load_for_ctranslate2(precision)
        device = device or ("cpu" if precision == "int8" else default_device())
        check_device(device)
        if with_fairseq:
            from ..fairseq_plugin.user_models import load_fairseq_model

            loaded = load_fairseq_model(self)
        else:
            loaded = load_model(self.checkpoint, self.data, self.pipeline.settings)
        loaded.model.to(device=device, dtype=PRECISIONS[precision])
        if precision == "int8":
            quantize_linear_layers(loaded.model)
        return loaded

    def _load_for_ctranslate2(self, precision: str) -> LoadedModel:
        """Return the model in float32, with CTranslate2's translator of this precision."""
        from ..checkpoints.ctranslate2_model import max_positions
        from .ctranslate2_search import build_translator

        loaded = self.load_model("cpu")
        longest = min(loaded.max_source_tokens, max_positions(loaded.model.encoder))
        translator = build_translator(loaded, precision)
        return replace(loaded, translator=translator, max_source_tokens=longest)
