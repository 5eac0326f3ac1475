"""How fairseq's commands end."""

import sys

import pytest
import torch

from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.patches.errors import input_error
from aiayn_plugin.training.optimizer import learning_rate


def behind(error, *others):
    """Return the last of the others; each was raised while the one before it was handled."""
    for other in others:
        other.__context__ = error
        error = other
    return error


def test_an_input_error_is_found_behind_other_errors():
    error = InputError("a line")
    assert input_error(error) == "a line"
    assert input_error(behind(error, KeyError("x"), SystemExit(1))) == "a line"
    caused = RuntimeError("y")
    caused.__cause__ = error
    assert input_error(caused) == "a line"


def test_a_fault_that_hides_its_context_is_none_of_ours():
    error = behind(InputError("a line"), TypeError("x"))
    error.__suppress_context__ = True  # raise … from None
    assert input_error(error) is None


def test_other_errors_are_none_of_ours():
    assert input_error(None) is None
    assert input_error(behind(ValueError("InputError: x"), KeyError("y"))) is None


def test_the_input_error_of_a_gpus_process_is_found_in_its_text():
    """torch.multiprocessing calls learning_rate(0, 512, 0) in a process of its own."""
    with pytest.raises(torch.multiprocessing.ProcessRaisedException) as failure:
        torch.multiprocessing.spawn(learning_rate, args=(512, 0), nprocs=1)
    assert input_error(failure.value) == "--warmup-updates must be at least 1, not 0"


def test_another_error_of_a_gpus_process_is_none_of_ours():
    with pytest.raises(torch.multiprocessing.ProcessRaisedException) as failure:
        torch.multiprocessing.spawn(learning_rate, args=("x", 1), nprocs=1)
    assert "TypeError" in str(failure.value) and input_error(failure.value) is None


@pytest.mark.parametrize(
    "imported, mended",
    [
        ("fairseq.models", "False"),
        ("fairseq_cli.train", "True"),
    ],
)
def test_only_fairseqs_commands_end_with_one_line(run, imported, mended):
    """A program of someone else's keeps its sys.excepthook."""
    program = (
        f"import sys, {imported}; hook = sys.excepthook; import aiayn_plugin; "
        "print(sys.excepthook is not hook)"
    )
    log = run(sys.executable, "-c", program)
    assert log.returncode == 0, log.stderr
    assert log.stdout.splitlines()[-1] == mended
