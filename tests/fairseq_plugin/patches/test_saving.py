"""How fairseq's checkpoints are written."""

import os
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from models import trainer

from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.patches.saving import interval_name

pytestmark = pytest.mark.usefixtures("quiet")


def test_fairseq_links_instead_of_copying(tmp_path):
    (tmp_path / "a.pt").write_text("weights")
    assert PathManager.copy(str(tmp_path / "a.pt"), str(tmp_path / "b.pt"), overwrite=True)
    assert os.path.samefile(tmp_path / "a.pt", tmp_path / "b.pt")


@pytest.mark.parametrize(
    "interval, updates, name, first",
    [
        (4, 8, "checkpoint_last.pt", "checkpoint_2_8.pt"),
        (4, 9, "checkpoint_last.pt", "checkpoint_last.pt"),
        (0, 8, "checkpoint_last.pt", "checkpoint_last.pt"),
        (4, 8, "checkpoint_2_8.pt", "checkpoint_2_8.pt"),
    ],
)
def test_the_name_of_an_interval(interval, updates, name, first):
    checkpoint = SimpleNamespace(save_interval_updates=interval, save_dir="run")
    assert interval_name(checkpoint, f"run/{name}", 2, updates) == f"run/{first}"


def test_a_checkpoint_to_average_is_there_also_at_the_end_of_an_epoch(corpus, tmp_path):
    training, epochs = trainer(corpus, tmp_path, "--save-interval-updates", "4")
    batches = epochs.next_epoch_itr(shuffle=True)
    batches.skip(len(batches))
    training.set_num_updates(8)
    training.begin_epoch(1)
    checkpoint_utils.save_checkpoint(training.cfg.checkpoint, training, epochs, None)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"checkpoint_1_8.pt", "checkpoint_last.pt"}
    assert os.path.samefile(*tmp_path.iterdir())


def test_weights_that_are_nan_are_not_written(corpus, tmp_path):
    training, epochs = trainer(corpus, tmp_path)
    epochs.next_epoch_itr()
    checkpoint_utils.save_checkpoint(training.cfg.checkpoint, training, epochs, 1.0)
    good = (tmp_path / "checkpoint_last.pt").read_bytes()
    with torch.no_grad():
        next(training.model.parameters())[0, 0] = torch.nan
    training.set_num_updates(7)
    with pytest.raises(
        InputError,
        match="^update 7 made weights that are NaN or infinite, and .*"
        "/checkpoint_[a-z]+.pt is not written: lower the rate",
    ):
        checkpoint_utils.save_checkpoint(training.cfg.checkpoint, training, epochs, 0.5)
    assert (tmp_path / "checkpoint_last.pt").read_bytes() == good


def test_a_directory_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="^--save-dir .*/file/run cannot be written: Not a dir"):
        checkpoint_utils.verify_checkpoint_directory(str(tmp_path / "file" / "run"))
