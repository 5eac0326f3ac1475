"""How fairseq's commands end."""

from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils

from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.patches.errors import input_error
from aiayn_plugin.training.optimizer import learning_rate


def chain(error, *others):
    """Return the last of a chain of errors, each raised while the previous one was handled."""
    for other in others:
        other.__context__ = error
        error = other
    return error


def test_an_input_error_is_found_behind_other_errors():
    error = InputError("a line")
    assert input_error(error) == "a line"
    assert input_error(chain(error, KeyError("x"), SystemExit(1))) == "a line"
    caused = RuntimeError("y")
    caused.__cause__ = error
    assert input_error(caused) == "a line"


def test_fairseqs_checks_of_its_options_are_input_errors():
    message = "--sampling requires --nbest to be equal to --beam"
    assert input_error(AssertionError(message)) == input_error(ValueError(message)) == message
    assert input_error(AssertionError()) is None
    devices = AssertionError("world size is 2 but have 0 available devices")
    assert input_error(devices).endswith(
        "devices: lower --distributed-world-size, or start the processes with torchrun"
    )


def test_faults_are_not_input_errors():
    hidden = chain(InputError("a line"), TypeError("x"))
    hidden.__suppress_context__ = True  # raise … from None
    handled = chain(FileNotFoundError(2, "No such file", "x"), TypeError("y"))
    for fault in (None, hidden, handled, chain(ValueError("InputError: x"), KeyError("y"))):
        assert input_error(fault) is None


def test_a_directory_that_cannot_be_written_is_reported_in_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError) as error:
        checkpoint_utils.verify_checkpoint_directory(str(tmp_path / "file" / "run"))
    assert input_error(error.value) == f"cannot access {tmp_path}/file/run: Not a directory"


def test_a_full_disk_and_invalid_utf8_are_reported_in_one_line():
    with pytest.raises(OSError) as error:
        Path("/dev/full").write_text("x")
    assert input_error(error.value) == "cannot write: No space left on device"
    with pytest.raises(UnicodeDecodeError) as error:
        b"\xff".decode()
    assert input_error(error.value).startswith("the input is not valid UTF-8: 'utf-8' codec can't")


def test_the_input_error_of_a_spawned_process_is_found_in_its_text():
    """torch.multiprocessing calls learning_rate(0, 512, 0) in a new process."""
    with pytest.raises(torch.multiprocessing.ProcessRaisedException) as failure:
        torch.multiprocessing.start_processes(
            learning_rate, args=(512, 0), nprocs=1, start_method="fork"
        )
    assert input_error(failure.value) == "--warmup-updates must be at least 1, not 0"


def test_the_mismatch_of_a_spawned_process_is_found_in_its_text():
    """fairseq-train spawns a process for each GPU. The last exception is the outermost."""
    lines = ("Traceback …", "AssertionError: Optimizer does not match; please reset the optimizer")
    trace = "\n".join(lines) + " (--reset-optimizer). FP16Optimizer vs AiaynAdam\n"
    message = input_error(torch.multiprocessing.ProcessRaisedException(trace, 0, 0))
    assert message.startswith(
        "the checkpoint was trained with a different optimizer (FP16Optimizer vs AiaynAdam): give "
    )
    trace = "Traceback …\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 MiB\n"
    message = input_error(torch.multiprocessing.ProcessRaisedException(trace, 0, 0))
    assert message.startswith("not enough memory for a batch: ")
    outer = f"{InputError.__module__}.InputError: update 7: not enough memory\n"
    chain = f"{trace}\nDuring handling of the above exception, …\n\n{outer}"
    message = input_error(torch.multiprocessing.ProcessRaisedException(chain, 0, 0))
    assert message == "update 7: not enough memory"


def test_the_fault_of_a_spawned_process_is_not_an_input_error():
    trace = "-- Process 0 terminated with the following error:\nTraceback …\nTypeError: --h x\n"
    assert input_error(torch.multiprocessing.ProcessRaisedException(trace, 0, 0)) is None
