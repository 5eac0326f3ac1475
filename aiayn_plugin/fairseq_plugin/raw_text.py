"""§5.1 Raw text in fairseq's commands, as `aiayn translate` reads and writes it.

`--tokenizer aiayn --bpe aiayn` use the settings and the subword model of the task's data. They are
the default for data made by aiayn prepare where fairseq translates raw text: in fairseq-interactive
and in its hub interface.
"""

from collections.abc import Container
from pathlib import Path
from typing import Any

from fairseq import utils
from fairseq.data.encoders import register_bpe, register_tokenizer
from fairseq.dataclass import FairseqDataclass
from omegaconf import OmegaConf

from ..errors import InputError
from ..text.pipeline import TextPipeline
from ..text.settings import find_settings

NAME = "aiayn"
#: fairseq's options for raw text. If one is given, the other keeps fairseq's default.
OPTIONS = ("tokenizer", "bpe")


def default_encoders(data: str, given: Container[str]) -> dict[str, str]:
    """Return the defaults of OPTIONS for the data directory of a task.

    given: the names of the options that were given. The result is empty if any of OPTIONS was
    given, and for trees and data of fairseq-preprocess. Raises InputError if the settings of the
    data are malformed.
    """
    settings = find_settings(first_directory(data))
    if settings is None or settings.holds_trees or any(name in given for name in OPTIONS):
        return {}
    return dict.fromkeys(OPTIONS, NAME)


def first_directory(data: str) -> Path:
    """Return the first data directory of a task, which has the files that all of them share."""
    return Path(utils.split_paths(data)[0])


def load_pipeline(task: Any) -> TextPipeline:
    """Return the pipeline of a task's data, in the task's direction.

    task: its settings. Raises InputError and OSError as TextPipeline.load does.
    """
    return TextPipeline.load(first_directory(task.data), task.source_lang, task.target_lang)


class _Encoder:
    """One step of the pipeline of the task's data.

    It has no option for files, which fairseq would also take from a checkpoint.
    """

    def __init__(self, pipeline: TextPipeline) -> None:
        self.pipeline = pipeline

    @classmethod
    def build_tokenizer(cls, cfg: Any) -> "_Encoder":
        """Return the encoder for the task in fairseq's configuration, of which `cfg` is a part.

        Raises InputError if there is no task, or if its data was not made by aiayn prepare.
        """
        if not OmegaConf.is_config(cfg):
            raise InputError(
                f"the tokenizer {NAME} reads the data of a task, which is unknown here: for "
                "--eval-bleu-detok, use the task aiayn_translation"
            )
        return cls(load_pipeline(cfg._get_root().task))

    build_bpe = build_tokenizer


@register_tokenizer(NAME, dataclass=FairseqDataclass)
class AiaynTokenizer(_Encoder):
    """Raw text to tokens, separated by spaces, and back."""

    def encode(self, line: str) -> str:
        return " ".join(self.pipeline.tokenize(line))

    def decode(self, line: str) -> str:
        return self.pipeline.detokenize(line.split())


@register_bpe(NAME, dataclass=FairseqDataclass)
class AiaynBpe(_Encoder):
    """Tokens, separated by spaces, to subwords and back: BPE or wordpieces."""

    def encode(self, line: str) -> str:
        return self.pipeline.subwords.encode(line.split())

    def decode(self, line: str) -> str:
        return " ".join(self.pipeline.subwords.decode(line))
