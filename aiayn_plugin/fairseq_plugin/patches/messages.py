"""What fairseq's commands print: no debugging, unless LOGLEVEL asks for it."""

import logging
import os
import sys
import warnings


def drop_debugging() -> None:
    """Drop messages for fairseq's developers, in fairseq's commands only.

    One of fairseq's models (wav2vec2_classification) sets the level of all loggers to DEBUG.
    """
    if "fairseq_cli" not in sys.modules:
        return  # a different program, which configures logging itself
    logging.getLogger("fairseq_cli.train").addFilter(name_devices)
    # Libraries warn about code of fairseq's that we cannot change.
    warnings.filterwarnings("ignore", module="fairseq|hydra|sys|__main__", append=True)
    if "LOGLEVEL" not in os.environ:
        root = logging.getLogger()
        root.setLevel(max(root.level, logging.INFO))
        # how it reuses batches, several lines for each epoch and validation
        logging.getLogger("fairseq.tasks.fairseq_task").setLevel(logging.WARNING)


def name_devices(record: logging.LogRecord) -> bool:
    """Reword "training on 2 devices (GPUs/TPUs)": they may be processes on a CPU."""
    if isinstance(record.msg, str):
        record.msg = record.msg.replace(" (GPUs/TPUs)", "")
    return True
