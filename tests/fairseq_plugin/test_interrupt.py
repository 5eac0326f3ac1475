"""Ctrl-C in a training run."""

import signal

import pytest
from hydra.core.hydra_config import HydraConfig
from models import configuration

from aiayn_plugin.fairseq_plugin.defaults import find_restart_options
from aiayn_plugin.fairseq_plugin.interrupt import Interrupt


@pytest.fixture
def training():
    """The state of a run that catches Ctrl-C, as the first one of its process."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    state = Interrupt()
    state.install_handler()
    yield state
    signal.signal(signal.SIGINT, handler)


def stops_at_once():
    """Send Ctrl-C, and return whether it stops the process at once."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        return True
    return False


def test_ctrl_c_before_training_stops_at_once(training):
    assert stops_at_once()


def test_the_second_ctrl_c_stops_at_once(training):
    training.resume_update = 0
    assert not stops_at_once() and training.is_requested
    assert stops_at_once()


def test_torchrun_may_repeat_ctrl_c(training, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    training.resume_update = 0
    assert not stops_at_once() and not stops_at_once() and training.is_requested


@pytest.mark.parametrize(
    "saved, message",
    [
        (None, "stopped"),
        (0, "stopped at update 3, which is not saved; run the same command to start again"),
        (
            2,
            "stopped at update 3, which is not saved; run the same command to continue from "
            "update 2",
        ),
        (3, "stopped at update 3; run the same command to continue"),
    ],
)
def test_the_message_says_how_to_continue(training, saved, message):
    training.update, training.resume_update = 3, saved
    assert training.message() == message


def test_the_message_says_to_omit_restart_options(training):
    training.install_handler(["--restore-file", "--reset-optimizer"])
    training.update = training.resume_update = 3
    assert training.message() == "stopped at update 3; run the same command to continue"
    training.has_saved = True
    assert training.message() == (
        "stopped at update 3; run the same command without --restore-file and --reset-optimizer to "
        "continue"
    )


def test_the_message_names_hydras_directory(training, monkeypatch, tmp_path):
    """By default Hydra starts a new one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(HydraConfig, "initialized", lambda: True)
    training.install_handler()
    training.update = training.resume_update = 3
    training.has_saved = True
    assert f"the same command with hydra.run.dir={tmp_path} to continue" in training.message()


def test_restart_options_are_found(corpus):
    checkpoint = configuration("--arch", "aiayn_tiny", data=corpus).checkpoint
    assert find_restart_options(checkpoint) == []
    checkpoint.restore_file, checkpoint.reset_meters = "x.pt", True
    assert find_restart_options(checkpoint) == ["--restore-file", "--reset-meters"]
