"""A checkpoint is loaded beside the dictionaries that it was trained with, and beside no others."""

import shutil

import pytest
from breakages import change
from fairseq import checkpoint_utils, tasks
from models import configuration, rates_taken, trainer

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.manifest import MANIFEST

pytestmark = pytest.mark.usefixtures("quiet")


def swapped(content):
    """Return a dictionary with its first two lines exchanged."""
    first, second, rest = content.split(b"\n", 2)
    return b"\n".join((second, first, rest))


@pytest.fixture
def other(corpus, tmp_path):
    """The same data with other words for two numbers, and no manifest."""
    data = shutil.copytree(corpus, tmp_path / "other")
    (data / MANIFEST).unlink()
    change(swapped, "dict.en.txt", "dict.de.txt")(data)
    return data


MESSAGE = r"trained with another source dictionary .* than .*/dict.en.txt .*: give the data"


def test_a_training_goes_on_with_its_own_dictionaries_alone(corpus, other, tmp_path):
    training, epoch = trainer(corpus, tmp_path / "run", "--max-update", "1")
    rates_taken(training, epoch, 1)
    checkpoint_utils.save_checkpoint(training.cfg.checkpoint, training, epoch, 1.0)
    trainer(corpus, tmp_path / "run", "--max-update", "1")
    with pytest.raises(InputError, match=MESSAGE):
        trainer(other, tmp_path / "run", "--max-update", "1")


def test_a_model_is_loaded_with_its_own_dictionaries_alone(model_dir, corpus, other):
    path = str(model_dir / "model.pt")

    def load(data, *flags):
        cfg = configuration("--arch", "aiayn_tiny", *flags, data=data)
        return checkpoint_utils.load_model_ensemble([path], task=tasks.setup_task(cfg.task))

    load(corpus)
    load(other, "--task", "translation")  # fairseq's own, which does not look
    with pytest.raises(InputError, match=MESSAGE):
        load(other)


def test_an_older_checkpoint_is_loaded(other):
    task = tasks.setup_task(configuration("--arch", "aiayn_tiny", data=other).task)
    for state in ({}, {"something": 1}):
        task.load_state_dict(state)
    assert task.state_dict().keys() == {"something", "dictionaries"}
    for broken in (
        [],
        {"dictionaries": 3},
        {"dictionaries": {"source": "a"}},
        {"dictionaries": {"source": "a", "target": 3}},
    ):
        with pytest.raises(InputError, match="the checkpoint is broken"):
            task.load_state_dict(broken)


def test_a_missing_model_is_one_line(tmp_path):
    with pytest.raises(InputError, match="none.pt: give a checkpoint"):
        checkpoint_utils.load_model_ensemble([str(tmp_path / "none.pt")])
