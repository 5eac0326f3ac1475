"""How a training starts, goes on and ends."""

import shutil
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.optim.dynamic_loss_scaler import DynamicLossScaler
from models import rates_taken, trainer

from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.patches.training import (
    finite_gradients,
    finite_loss,
    memory_of_all,
    newest_first,
    whole_updates,
)

pytestmark = pytest.mark.usefixtures("quiet")


def saved(corpus, folder, *flags, updates=1):
    """Train for some updates, and save; return fairseq's iterator of epochs."""
    training, epochs = trainer(corpus, folder, *flags)
    rates_taken(training, epochs, updates)
    checkpoint_utils.save_checkpoint(training.cfg.checkpoint, training, epochs, 1.0)
    return epochs


def test_the_newest_checkpoint_comes_first(tmp_path):
    names = [
        "checkpoint2.pt",
        "checkpoint_2_30.pt",
        "checkpoint_2_20.pt",
        "checkpoint1.pt",
        "checkpoint_best.pt",
    ]
    for name in [
        *sorted(names),
        "checkpoint_last.pt",
        "checkpoint_3_40.pt.tmp",
        "model.pt",
        "checkpoint_9_9-shard0.pt",
    ]:
        (tmp_path / name).touch()
    assert [path.name for path in newest_first(tmp_path)] == names
    assert [path.name for path in newest_first(tmp_path, "-shard0")] == ["checkpoint_9_9-shard0.pt"]


@pytest.mark.parametrize("broken", [b"", b"x" * 1000, None], ids=["empty", "random", "cut"])
def test_a_broken_last_checkpoint_names_the_newest_whole_one(corpus, tmp_path, broken):
    saved(corpus, tmp_path)
    last = tmp_path / "checkpoint_last.pt"
    whole = last.read_bytes()
    for path in tmp_path.iterdir():
        path.unlink()  # they may be names of one file
    last.write_bytes(whole[: len(whole) // 2] if broken is None else broken)
    with pytest.raises(InputError, match="no other checkpoint in .* is whole: move it away"):
        trainer(corpus, tmp_path)
    (tmp_path / "checkpoint_1_3.pt").write_bytes(b"y")
    (tmp_path / "checkpoint_1_1.pt").write_bytes(whole)
    once = tmp_path / "checkpoint_1_1.pt"
    with pytest.raises(
        InputError,
        match=f"the newest whole one is {once}: continue from it once with --restore-file {once}$",
    ):
        trainer(corpus, tmp_path)


def test_restore_file_continues_and_resets_nothing(corpus, tmp_path):
    saved(corpus, tmp_path, updates=3)
    other = shutil.copy(tmp_path / "checkpoint_last.pt", tmp_path / "checkpoint_1_3.pt")
    (plain, epochs), (named, same) = (
        trainer(corpus, tmp_path, *flags) for flags in ((), ("--restore-file", str(other)))
    )
    assert named.get_num_updates() == plain.get_num_updates() == 3
    assert named.get_lr() == plain.get_lr()
    assert same.iterations_in_epoch == epochs.iterations_in_epoch == 3
    moments = [t.optimizer.state_dict()["state"] for t in (named, plain)]
    assert moments[0]
    torch.testing.assert_close(*moments, rtol=0, atol=0)


def test_another_error_stays_what_it_is(corpus, tmp_path):
    saved(corpus, tmp_path)
    with pytest.raises(Exception, match="ensure that the architectures match"):
        trainer(corpus, tmp_path, "--d-ff", "32")


def test_batches_are_those_of_the_first_epoch_in_each(corpus, tmp_path):
    """fairseq-fixed would cut the training set anew where a run goes on."""
    training, epochs = trainer(corpus, tmp_path)
    rates_taken(training, epochs, 1)
    epochs.epoch = 3
    checkpoint_utils.save_checkpoint(training.cfg.checkpoint, training, epochs, 1.0)
    _, continued = trainer(corpus, tmp_path)
    assert continued.epoch == 3 and continued.iterations_in_epoch == 1
    batches = [[batch.tolist() for batch in itr.frozen_batches] for itr in (epochs, continued)]
    assert batches[0] == batches[1]


@pytest.mark.parametrize(
    "limit, finished",
    [
        (("--max-update", "2"), True),
        (("--max-update", "3"), False),
        (("--max-epoch", "1"), False),
    ],
)
def test_a_run_that_has_its_updates_takes_none(corpus, tmp_path, limit, finished):
    saved(corpus, tmp_path, updates=2)
    training, epochs = trainer(corpus, tmp_path, *limit)
    max_epoch = training.cfg.optimization.max_epoch
    assert finished == (max_epoch < 0)
    assert not finished or epochs.next_epoch_idx > max_epoch, "fairseq's loop ends"


def test_what_a_killed_run_left_is_removed(corpus, tmp_path):
    (tmp_path / "checkpoint_1_2.pt.tmp").write_text("half")
    (tmp_path / "other.tmp").write_text("the user's")
    trainer(corpus, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["other.tmp"]


def test_an_overflow_is_fairseqs_until_the_scale_is_at_its_minimum(corpus, tmp_path):
    training, _ = trainer(corpus, tmp_path)
    scaler = DynamicLossScaler(init_scale=4.0, min_loss_scale=1.0)
    clip = finite_gradients(lambda trainer, norm: scaler.check_overflow(torch.tensor(torch.inf)))
    with pytest.raises(OverflowError, match="setting loss scale to: 2.0"):
        clip(training, 0.0)
    with pytest.raises(InputError, match="^update 1: the gradients overflow at any loss scale"):
        clip(training, 0.0)


def test_gradients_that_are_nan_end_the_training(corpus, tmp_path):
    training, epochs = trainer(corpus, tmp_path)
    rates_taken(training, epochs, 2)
    with torch.no_grad():
        next(training.model.parameters())[:] = torch.inf
    with pytest.raises(InputError, match="^update 3: gradients are NaN or infinite: lower"):
        rates_taken(training, epochs, 1)
    assert list(tmp_path.iterdir()) == [], "no crash.pt"


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), torch.tensor(torch.nan)])
def test_a_loss_that_is_no_number_ends_the_training(corpus, tmp_path, loss):
    training, _ = trainer(corpus, tmp_path)
    training.set_num_updates(3)
    assert finite_loss(lambda trainer: {"loss": 2.5})(training) == {"loss": 2.5}
    assert finite_loss(lambda trainer: None)(training) is None, "fairseq skipped the batch"
    with pytest.raises(InputError, match="^update 3: the loss is .*(nan|inf).*: lower the rate"):
        finite_loss(lambda trainer: {"loss": loss})(training)


@pytest.mark.parametrize(
    "processes, backend, taken",
    [
        (1, "c10d", [{"id": 1}, {}]),
        (2, "c10d", [{"id": 1}]),
        (2, "fully_sharded", [{"id": 1}, {}]),
    ],
)
def test_an_empty_batch_is_left_out_beside_others(processes, backend, taken):
    parallel = SimpleNamespace(ddp_backend=backend)
    training = SimpleNamespace(
        cfg=SimpleNamespace(distributed_training=parallel), data_parallel_world_size=processes
    )
    step = whole_updates(lambda trainer, samples: samples)
    assert step(training, [{"id": 1}, {}]) == taken
    assert step(training, [{}]) == [{}], "each process takes part in the update"


@pytest.mark.parametrize(
    "processes, said",
    [
        (1, "CUDA out of memory. Tried to allocate 2.00 GiB"),
        (2, "^update 3: out of memory: start the same command with a smaller --max-tokens"),
    ],
)
def test_several_processes_end_where_memory_does(corpus, tmp_path, processes, said):
    training, epochs = trainer(corpus, tmp_path)
    rates_taken(training, epochs, 2)

    def step(trainer, samples, raise_oom):
        assert raise_oom == (processes > 1), "else fairseq goes on without this batch"
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    several = SimpleNamespace(
        cfg=training.cfg,
        get_num_updates=training.get_num_updates,
        data_parallel_world_size=processes,
    )
    with pytest.raises(Exception, match=said):
        memory_of_all(step)(several, [{"id": 1}])
