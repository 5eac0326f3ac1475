"""Mends of how fairseq's commands end."""

import os
import re
import sys

import torch
from hydra.core.hydra_config import HydraConfig

from ...errors import InputError
from .precision import OVERFLOW, overflow_on_cpu


def end_with_one_line() -> None:
    """End a command of fairseq with one line for an InputError.

    fairseq ends with a stack trace, and hydra adds its own. Some of fairseq's functions put another
    exception around ours, and torch puts that of a GPU's process into text. Can go when fairseq
    tells bad input from its own faults.
    """
    if "fairseq_cli" not in sys.modules:
        return  # a program of someone else's, which sees the exception
    show = sys.excepthook

    def show_input_error(kind, error, trace) -> None:
        message = input_error(error)
        if message is None:
            show(kind, error, trace)
        else:
            print(f"{os.path.basename(sys.argv[0])}: error: {message}", file=sys.stderr)

    sys.excepthook = show_input_error
    if HydraConfig.initialized():
        os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # leave the exception to the hook


def input_error(error: BaseException | None) -> str | None:
    """Return the message of the InputError behind an exception, None if there is none."""
    while error is not None:
        if isinstance(error, InputError):
            return str(error)
        if overflow_on_cpu(error):
            return OVERFLOW
        if isinstance(error, torch.multiprocessing.ProcessRaisedException):
            name = re.escape(f"{InputError.__module__}.{InputError.__name__}")
            if line := re.search(rf"^{name}: (.*)$", str(error), re.MULTILINE):
                return line[1]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return None
