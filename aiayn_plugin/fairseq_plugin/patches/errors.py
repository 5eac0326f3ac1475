"""Patch that ends fairseq's commands with one line on bad input."""

import multiprocessing
import os
import re
import sys
from collections.abc import Callable

import torch
from hydra.core.hydra_config import HydraConfig

from ...atomic import DISK_FULL
from ...errors import InputError
from ...kernels.device import is_out_of_memory
from ...text.lines import escape_unprintable
from ..interrupt import interrupt
from ..optimizer import DIVERGENCE_ADVICE

#: Names of the command that builds task and criterion from a checkpoint's settings.
VALIDATION = ("fairseq-validate", "validate.py")


def show_one_line(show: Callable) -> Callable:
    """Wrap sys.excepthook: fairseq and Hydra would each print a stack trace.

    The trace is shown if the input is not at fault, and with LOGLEVEL=DEBUG, fairseq's variable.
    """
    if "fairseq_cli" not in sys.modules:
        return show  # a different program, which handles exceptions itself
    if HydraConfig.initialized():
        os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # leave the exception to the hook

    def show_input_error(kind, error, trace) -> None:
        command = os.path.basename(sys.argv[0])
        if isinstance(error, KeyboardInterrupt):
            # fairseq-train has a child per GPU; data loaders are daemons
            if not all(child.daemon for child in multiprocessing.active_children()):
                outcome = "stopping after this update, once its checkpoint is saved"
            else:
                outcome = interrupt.message()
            if os.environ.get("RANK", "0") == "0":
                print(f"{command}: {outcome}", file=sys.stderr)
            return  # the signal then kills Python, which a shell reports as 130
        if isinstance(error, BrokenPipeError):  # as with `fairseq-generate … | head`
            try:
                sys.stdout.flush()
            except BrokenPipeError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                return
        message = input_error(error)
        if message is None and command in VALIDATION and isinstance(error, Exception):
            message = f"validation failed (LOGLEVEL=DEBUG shows where): {describe_error(error)}"
        if message is None or os.environ.get("LOGLEVEL", "").upper() == "DEBUG":
            show(kind, error, trace)
        if message is not None:
            print(f"{command}: error: {escape_unprintable(message)}", file=sys.stderr)

    return show_input_error


def describe_error(error: Exception) -> str:
    """Return the type of an exception and the first line of its message."""
    first_line = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {first_line:.500}"


def input_error(error: BaseException | None) -> str | None:
    """Return the message of the bad input behind an exception; None for a bug.

    Some of fairseq's functions chain a different exception to an InputError, and torch passes on a
    spawned process's exception as text.
    """
    if isinstance(error, OSError) and error.filename is not None:
        return f"cannot access {error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        return f"cannot write: {error.strerror}"
    if isinstance(error, UnicodeDecodeError):
        return f"the input is not valid UTF-8: {error}"
    while error is not None:
        if isinstance(error, torch.multiprocessing.ProcessRaisedException):
            return _child_error(str(error))
        if (message := _explain(error)) is not None:
            return message
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return None


def _explain(error: BaseException) -> str | None:
    """Return what the user can do about one exception of a chain."""
    text = str(error)
    if isinstance(error, InputError):
        return text
    if match := re.search("(Optimizer|Criterion) does not match; .* (.* vs .*)", text):
        options = {"Optimizer": "--fp16, --amp or --optimizer", "Criterion": "--criterion"}
        return (
            f"the checkpoint was trained with a different {match[1].lower()} ({match[2]}): give "
            f"the options that it was trained with ({options[match[1]]}); --reset-optimizer would "
            "also start again at update 0"
        )
    if isinstance(error, (AssertionError, ValueError)) and re.search(r"--[a-z]", text):
        return text  # fairseq's checks of its options
    if isinstance(error, RuntimeError) and "dataloader mismatch" in text:
        return (
            "the checkpoint is from the middle of an epoch with different batches: give the "
            "options that it was trained with, or --reset-dataloader to begin with epoch 1"
        )
    if isinstance(error, (RuntimeError, MemoryError)) and is_out_of_memory(error):
        return "not enough memory for a batch: use a smaller --max-tokens or --batch-size"
    if isinstance(error, AssertionError) and text.startswith("world size is"):
        return f"{text}: lower --distributed-world-size, or start the processes with torchrun"
    if isinstance(error, ImportError) and "install" in text:
        return " ".join(text.split())
    if isinstance(error, FloatingPointError) and "loss scale" in text:
        return f"the gradients overflow at the minimum loss scale: {DIVERGENCE_ADVICE}"
    return None


def _child_error(trace: str) -> str | None:
    """Return what the user can do about the exception of a spawned process, given as text."""
    kinds: list[type] = [InputError, *InputError.__subclasses__()]
    kinds += [AssertionError, ValueError, FloatingPointError, MemoryError]
    names = {kind.__name__: kind for kind in kinds}
    # the last exception of a chain is the outermost
    for name, text in reversed(re.findall(r"^(?:\w+\.)*(\w+Error): (.*)$", trace, re.MULTILINE)):
        if (message := _explain(names.get(name, RuntimeError)(text))) is not None:
            return message
    return None
