"""Searching a batch in halves when memory runs out."""

import logging
from collections.abc import Callable
from typing import Any

import torch

from ..errors import InputError
from ..kernels.device import is_out_of_memory

logger = logging.getLogger(__name__)


class BatchHalver:
    """Searches the halves of a batch that does not fit in memory, and warns the first time."""

    def __init__(self) -> None:
        self.has_warned = False

    def search(self, search_rows: Callable[[slice], list[Any]], rows: slice) -> list[Any]:
        """Return search_rows(rows), splitting the rows if necessary.

        Raises InputError if not even a single sentence fits in memory.
        """
        size = rows.stop - rows.start
        try:
            return search_rows(rows)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            if size < 2:
                raise InputError(
                    "not enough memory to translate one sentence: reduce --beam or shorten the "
                    "sentence"
                ) from None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if not self.has_warned:
            logger.warning(
                "out of memory: batches of %d or more sentences are searched in halves; a smaller "
                "--max-tokens avoids this",
                size,
            )
            self.has_warned = True
        middle = rows.start + size // 2
        halves = slice(rows.start, middle), slice(middle, rows.stop)
        return [result for half in halves for result in self.search(search_rows, half)]
