"""How fairseq's checkpoints are written and resumed."""

import os
import shutil

import pytest
import torch
from breakages import DICTIONARY, change
from fairseq import checkpoint_utils, tasks
from fairseq.file_io import PathManager
from models import configuration, take_updates, trainer

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.manifest import MANIFEST

pytestmark = pytest.mark.usefixtures("quiet")
UNTIED = ["--tie-embeddings", "target"]


def save(training, epochs, loss=1.0):
    """Save the checkpoints that are due."""
    checkpoint_utils.save_checkpoint(training.cfg.checkpoint, training, epochs, loss)


def end_epoch(training, epochs, update):
    """Save as fairseq does at the end of an epoch, after this update."""
    batches = epochs.next_epoch_itr(shuffle=True)
    batches.skip(len(batches))
    training.set_num_updates(update)
    save(training, epochs, None)


def train(corpus, folder, *flags, updates=1):
    """Train for some updates, save, and return fairseq's iterator of epochs."""
    training, epochs = trainer(corpus, folder, *flags)
    take_updates(training, epochs, updates)
    save(training, epochs)
    return epochs


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    """The directory of a run after one update, which no test may change."""
    train(corpus, folder := tmp_path_factory.mktemp("trained"))
    return folder


@pytest.fixture(scope="module")
def untied(corpus, tmp_path_factory):
    """Likewise, with separate matrices for source and target."""
    train(corpus, folder := tmp_path_factory.mktemp("untied"), *UNTIED)
    return folder


# ---- Writing


def test_fairseq_links_instead_of_copying(tmp_path):
    (tmp_path / "a.pt").write_text("weights")
    assert PathManager.copy(str(tmp_path / "a.pt"), str(tmp_path / "b.pt"), overwrite=True)
    assert os.path.samefile(tmp_path / "a.pt", tmp_path / "b.pt")


@pytest.mark.parametrize(
    "flags, names",
    [
        (["--save-interval-updates", "4"], {"checkpoint_1_8.pt", "checkpoint_last.pt"}),
        (
            ["--save-interval-updates", "4", "--checkpoint-suffix", "_x"],
            {"checkpoint_1_8_x.pt", "checkpoint_last_x.pt"},
        ),
        (["--save-interval-updates", "3"], {"checkpoint_last.pt"}),
    ],
)
def test_a_checkpoint_to_average_is_also_written_at_the_end_of_an_epoch(
    corpus, tmp_path, flags, names
):
    training, epochs = trainer(corpus, tmp_path, *flags)
    end_epoch(training, epochs, 8)
    assert {path.name for path in tmp_path.iterdir()} == names
    assert len({path.stat().st_ino for path in tmp_path.iterdir()}) == 1, "hard links"


def test_old_checkpoints_are_removed_at_the_end_of_an_epoch_too(corpus, tmp_path):
    flags = "--save-interval-updates 4 --keep-interval-updates 2 --keep-interval-updates-pattern 12"
    training, epochs = trainer(corpus, tmp_path, *flags.split())
    for update in range(4, 29, 4):
        end_epoch(training, epochs, update)
    kept = {int(path.stem.split("_")[2]) for path in tmp_path.glob("checkpoint_[0-9]*_*.pt")}
    assert kept == {12, 24, 20, 28}


@pytest.mark.parametrize(
    "last, names",
    [(2, {"checkpoint_1_2.pt", "checkpoint_last.pt"}), (3, {"checkpoint_last.pt"})],
)
def test_the_last_update_is_among_the_checkpoints_to_average(corpus, tmp_path, last, names):
    """Also within an epoch, where the interval does not divide the number of updates."""
    flags = ("--save-interval-updates", "5", "--max-update", str(last))
    train(corpus, tmp_path, *flags, updates=2)
    assert {path.name for path in tmp_path.glob("*.pt")} - {"checkpoint_best.pt"} == names


def test_the_end_of_the_last_epoch_is_among_the_checkpoints_to_average(corpus, tmp_path):
    flags = ("--save-interval-updates", "5", "--max-epoch", "2")
    training, epochs = trainer(corpus, tmp_path, *flags)
    assert training.cfg.optimization.max_update == 0, "--max-epoch is then the only limit"
    for update in (3, 6):
        end_epoch(training, epochs, update)
    assert [path.name for path in tmp_path.glob("checkpoint_[0-9]*")] == ["checkpoint_2_6.pt"]


def test_weights_that_are_nan_are_not_written(corpus, tmp_path):
    training, epochs = trainer(corpus, tmp_path)
    epochs.next_epoch_itr()
    # As in fairseq's adaptive softmax, which never initialises it.
    training.model.register_buffer("_float_tensor", torch.tensor([torch.nan]))
    save(training, epochs)
    intact = (tmp_path / "checkpoint_last.pt").read_bytes()
    name, weight = next(training.model.named_parameters())
    with torch.no_grad():
        weight[0, 0] = torch.nan
    training.set_num_updates(7)
    message = f"^update 7 made {name} NaN or infinite, and .*/checkpoint_[a-z]+.pt is not written"
    with pytest.raises(InputError, match=message):
        save(training, epochs, 0.5)
    assert (tmp_path / "checkpoint_last.pt").read_bytes() == intact


@pytest.mark.parametrize("buffer", [torch.ones(4, dtype=torch.cfloat), torch.ones(1).expand(4)])
def test_a_checkpoint_that_could_not_be_loaded_ends_training(corpus, tmp_path, buffer):
    training, epochs = trainer(corpus, tmp_path)
    epochs.next_epoch_itr()
    save(training, epochs)
    intact = {path: path.read_bytes() for path in tmp_path.glob("checkpoint*")}
    training.model.register_buffer("of_the_user", buffer)
    with pytest.raises(InputError, match="it is not kept: register such a buffer .* persistent"):
        save(training, epochs)
    assert intact == {path: path.read_bytes() for path in tmp_path.glob("checkpoint*")}


# ---- Resuming


def test_restore_file_resumes_the_whole_run(corpus, tmp_path):
    """Even if the last checkpoint is damaged."""
    train(corpus, tmp_path, updates=3)
    other = shutil.copy(tmp_path / "checkpoint_last.pt", tmp_path / "checkpoint_1_3.pt")
    plain, epochs = trainer(corpus, tmp_path)
    (tmp_path / "checkpoint_last.pt").write_bytes(b"damaged")
    named, same = trainer(corpus, tmp_path, "--restore-file", str(other))
    assert named.get_num_updates() == plain.get_num_updates() == 3
    assert named.get_lr() == plain.get_lr()
    assert same.iterations_in_epoch == epochs.iterations_in_epoch == 3
    moments = [t.optimizer.state_dict()["state"] for t in (named, plain)]
    assert moments[0]
    torch.testing.assert_close(*moments, rtol=0, atol=0)


def test_checkpoints_of_an_earlier_run_give_a_warning(corpus, tmp_path, caplog):
    """fairseq would remove each new one as the oldest, and averages would mix both runs."""
    (tmp_path / "checkpoint_9_900.pt").touch()
    trainer(corpus, tmp_path / "other")
    assert "earlier run" not in caplog.text
    trainer(corpus, tmp_path)
    assert "checkpoint_9_900.pt is from an earlier run" in caplog.text


def test_training_does_not_resume_without_the_optimizers_state(corpus, tmp_path):
    """fairseq would begin with update 0 again."""
    train(corpus, tmp_path, "--no-save-optimizer-state")
    last = str(tmp_path / "checkpoint_last.pt")
    with pytest.raises(InputError, match="holds no optimizer state, .* --finetune-from-model"):
        trainer(corpus, tmp_path)
    trainer(corpus, tmp_path, "--reset-optimizer")
    trainer(corpus, tmp_path / "new", "--finetune-from-model", last)


def test_batches_are_those_of_the_first_epoch_in_each(corpus, tmp_path):
    """fairseq-fixed would make different batches in the epoch in which a run resumes."""
    training, epochs = trainer(corpus, tmp_path)
    take_updates(training, epochs, 1)
    epochs.epoch = 3
    save(training, epochs)
    _, resumed = trainer(corpus, tmp_path)
    assert resumed.epoch == 3 and resumed.iterations_in_epoch == 1
    batches = [[batch.tolist() for batch in itr.frozen_batches] for itr in (epochs, resumed)]
    assert batches[0] == batches[1]


def test_a_finished_run_takes_no_further_update(corpus, tmp_path):
    train(corpus, tmp_path, updates=2)
    for limit, finished in (
        ("--max-update 2", True),
        ("--max-update 3", False),
        ("--max-epoch 1", False),
    ):
        training, epochs = trainer(corpus, tmp_path, *limit.split())
        max_epoch = training.cfg.optimization.max_epoch
        assert finished == (max_epoch < 0), limit
        assert not finished or epochs.next_epoch_idx > max_epoch, "fairseq's loop ends"


def test_a_run_that_has_reached_its_last_epoch_is_finished(corpus, tmp_path):
    training, epochs = trainer(corpus, tmp_path)
    take_updates(training, epochs, 1)
    epochs.epoch = 3
    save(training, epochs)
    last = str(tmp_path / "checkpoint_last.pt")
    for flags, finished in (
        ([], True),
        (["--reset-optimizer"], True),
        (["--reset-dataloader"], False),
        (["--finetune-from-model", last, "--stop-time-hours", "1e-9"], False),
    ):
        directory = tmp_path / "new" if "--finetune-from-model" in flags else tmp_path
        training, _ = trainer(corpus, directory, "--max-epoch", "2", *flags)
        assert (training.cfg.optimization.max_epoch < 0) == finished, flags


def test_leftovers_of_a_killed_run_are_removed(corpus, tmp_path):
    (tmp_path / "checkpoint_1_2.pt.tmp").write_text("half")
    (tmp_path / "other.tmp").write_text("the user's")
    trainer(corpus, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["other.tmp"]


# ---- A checkpoint's identity


@pytest.fixture
def different(corpus, tmp_path):
    """The same data with the target's words in a different order, and the error it must cause."""
    data = shutil.copytree(corpus, tmp_path / "different")
    (data / MANIFEST).unlink()
    change(DICTIONARY["other order"], "dict.de.txt")(data)
    message = r"/dict.de.txt .* does not match the target dictionary of the checkpoint"
    return data, message


def test_training_resumes_with_its_own_dictionaries_only(corpus, different, untied, tmp_path):
    data, message = different
    trainer(corpus, untied, *UNTIED)
    with pytest.raises(InputError, match=message):
        trainer(data, untied, *UNTIED)
    finetune = [*UNTIED, "--finetune-from-model", str(untied / "checkpoint_last.pt")]
    train(data, tmp_path / "new", *finetune)
    trainer(data, tmp_path / "new", *finetune)
    with pytest.raises(InputError, match="does not match the target dictionary"):
        trainer(corpus, tmp_path / "new", *finetune)


def test_a_model_is_loaded_with_its_own_dictionaries_only(corpus, different, untied):
    data, message = different
    path = str(untied / "checkpoint_last.pt")

    def load(data, *flags):
        cfg = configuration("--arch", "aiayn_tiny", *flags, data=data)
        return checkpoint_utils.load_model_ensemble([path], task=tasks.setup_task(cfg.task))

    load(corpus)
    load(data, "--task", "translation")  # fairseq's own task does not compare them
    with pytest.raises(InputError, match=message):
        load(data)
    with pytest.raises(InputError, match="is for the direction de to en"):
        load(corpus, "-s", "de", "-t", "en")


OTHER_SETTING = "h is 4, not 2"


def test_training_resumes_with_its_own_settings_only(corpus, trained, tmp_path):
    with pytest.raises(InputError, match=OTHER_SETTING) as error:
        trainer(corpus, trained, "--h", "2")
    assert "\n" not in str(error.value)
    last = trained / "checkpoint_last.pt"
    for options in (["--finetune-from-model"], ["--restore-file"]):
        with pytest.raises(InputError, match=OTHER_SETTING):
            trainer(corpus, tmp_path / "new", "--h", "2", *options, str(last))


def test_a_model_is_loaded_with_its_own_settings_only(corpus, trained):
    cfg = configuration("--arch", "aiayn_tiny", data=corpus)
    path = str(trained / "checkpoint_last.pt")
    with pytest.raises(InputError, match=OTHER_SETTING):
        checkpoint_utils.load_model_ensemble([path], {"h": 2}, task=tasks.setup_task(cfg.task))


def test_different_matrices_are_not_loaded_into_a_shared_one(corpus, trained, untied, tmp_path):
    """Names and shapes are equal, and the second matrix would overwrite the first."""
    finetune = "--finetune-from-model"
    for folder, options in (
        (untied, []),
        (tmp_path / "new", [finetune, str(untied / "checkpoint_last.pt")]),
    ):
        with pytest.raises(InputError, match="differ, but this model ties them .--tie-emb"):
            trainer(corpus, folder, *options)
    trainer(corpus, tmp_path / "other", *UNTIED, finetune, str(trained / "checkpoint_last.pt"))


def test_a_state_that_does_not_fit_is_refused(corpus, trained, tmp_path):
    state = torch.load(trained / "checkpoint_last.pt", weights_only=False)
    state["last_optimizer_state"] = {"state": 7}
    torch.save(state, tmp_path / "checkpoint_last.pt")
    with pytest.raises(InputError, match="checkpoint_last.pt does not fit this run: "):
        trainer(corpus, tmp_path)


def test_a_missing_model_is_reported_in_one_line(tmp_path):
    (tmp_path / "model.pt").touch()
    for name, suffix in (("none.pt", ""), ("model.pt", "_x")):
        with pytest.raises(InputError, match=r"(none|model_x).pt: give a checkpoint"):
            checkpoint_utils.load_model_ensemble([str(tmp_path / name)], suffix=suffix)
