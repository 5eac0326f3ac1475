"""What fairseq's commands print: no debug messages, unless LOGLEVEL is set."""

import logging
import os
import sys
import warnings

from ..interrupt import interrupt


def silence_debug_messages() -> None:
    """Drop messages for fairseq's developers, in fairseq's commands only.

    One of fairseq's models (wav2vec2_classification) sets the level of all loggers to DEBUG.
    """
    if "fairseq_cli" not in sys.modules:
        return  # a different program, which configures logging itself
    logging.getLogger("fairseq_cli.train").addFilter(hide_time_limit)
    # Libraries warn about fairseq's code, which we cannot change.
    warnings.filterwarnings("ignore", module="fairseq|hydra|sys|__main__", append=True)
    if "LOGLEVEL" not in os.environ:
        root = logging.getLogger()
        root.setLevel(max(root.level, logging.INFO))
        # it logs several lines on reusing batches per epoch and validation
        logging.getLogger("fairseq.tasks.fairseq_task").setLevel(logging.WARNING)


def hide_time_limit(record: logging.LogRecord) -> bool:
    """Drop fairseq's report, after Ctrl-C, of a time limit that the user has not set."""
    return not (interrupt.is_stopping and "stop_time_hours" in record.getMessage())
