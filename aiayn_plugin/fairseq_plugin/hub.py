"""§6.1 fairseq's hub interface: `AiaynTransformer.from_pretrained(...).translate(...)`."""

from collections.abc import Container
from typing import Any

from fairseq.hub_utils import GeneratorHubInterface
from omegaconf import open_dict

from ..paper import SearchSettings, paper_search
from ..text.settings import holds_trees
from .raw_text import default_encoders, first_directory


class TranslationHub(GeneratorHubInterface):
    """fairseq's interface with the paper's search, from raw text to raw text.

    sample() and generate() keep fairseq's beams, 1 and 5.
    """

    def __init__(self, cfg: Any, task: Any, models: list, given: Container[str]) -> None:
        """Build the interface. given: names of the settings passed to from_pretrained.

        Raises InputError and OSError for data that cannot be used.
        """
        with open_dict(cfg):
            for option, name in default_encoders(cfg.task.data, given).items():
                cfg[option] = {"_name": name}
        super().__init__(cfg, task, models)
        with open_dict(cfg.generation):
            for name in SearchSettings().options():
                if name not in given:
                    del cfg.generation[name]  # the task's build_generator has the defaults

    def translate(
        self,
        sentences: list[str],
        beam: int | None = None,
        verbose: bool = False,
        **kwargs: Any,
    ) -> list[str]:
        """Like fairseq's, with the paper's beam by default: 4, or 21 for trees (§6.3)."""
        if beam is None:
            beam = paper_search(holds_trees(first_directory(self.task.cfg.data))).beam
        return super().translate(sentences, beam, verbose, **kwargs)
