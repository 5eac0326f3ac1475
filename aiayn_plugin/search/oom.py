"""A batch that memory is too small for is translated in halves."""

import logging
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError

logger = logging.getLogger(__name__)

#: As torch says it of a GPU, of the matrix products on it, and of a CPU.
OUT_OF_MEMORY = re.compile("out of memory|CUBLAS_STATUS_ALLOC_FAILED|can't allocate memory")


class WarningOfMemory:
    """Warns of the first batch that is halved."""

    def __init__(self) -> None:
        self.given = False

    def __call__(self, sentences: int) -> None:
        if not self.given:
            logger.warning(
                "out of memory: a batch of %d sentences is translated in halves, and "
                "so is each later one that is too large; a smaller --max-tokens avoids "
                "this",
                sentences,
            )
        self.given = True


def in_halves(
    translate: Callable[[dict[str, Any], Tensor | None], list],
    sample: dict[str, Any],
    prefix_tokens: Tensor | None,
    warn: Callable[[int], None],
) -> list:
    """Return translate(sample, prefix_tokens), from the halves of a batch if memory is too small.

    warn is called with the sentences of each batch that is halved. Raises InputError if memory is
    too small for one sentence.
    """
    size = len(sample["net_input"]["src_tokens"])
    try:
        return translate(sample, prefix_tokens)
    except RuntimeError as error:
        if not OUT_OF_MEMORY.search(str(error)):
            raise
        if size < 2:
            raise InputError(
                "not enough memory to translate one sentence: a smaller --beam or "
                "shorter sentences need less"
            ) from None
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    warn(size)
    hypotheses = []
    for half in (slice(size // 2), slice(size // 2, None)):
        net_input = {name: value[half] for name, value in sample["net_input"].items()}
        part = {**sample, "net_input": net_input}
        for name in ("id", "target"):  # fairseq-interactive has none
            if sample.get(name) is not None:
                part[name] = sample[name][half]
        prefix = prefix_tokens[half] if prefix_tokens is not None else None
        hypotheses += in_halves(translate, part, prefix, warn)
    return hypotheses
