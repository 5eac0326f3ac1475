"""The mends of fairseq's checkpoints."""

import io
import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from models import rates_taken, trainer

from aiayn_plugin.boundary.mends.checkpoints import (
    complete_checkpoints,
    link_or_copy,
    with_plain_data,
    with_post_save,
)


@pytest.mark.usefixtures("quiet")
def test_what_processes_of_a_resumed_run_send_each_other(corpus, tmp_path):
    """Rank 0 sends the others its checkpoint with a number in place of each tensor."""
    training, epoch = trainer(corpus, tmp_path)
    rates_taken(training, epoch, 1)
    checkpoint_utils.save_checkpoint(training.cfg.checkpoint, training, epoch, 1.0)
    state = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "checkpoint_last.pt"))
    state["extra_state"]["bleu"] = {"best": np.float64(37.5), "counts": np.array([3, 4])}
    before = torch.serialization.get_safe_globals()
    buffer = io.BytesIO()
    torch.save(distributed_utils._split_tensors_from_obj(state, []), buffer)
    buffer.seek(0)
    received = with_plain_data(lambda: torch.load(buffer, map_location="cpu"))()
    assert received["cfg"].model.d_model == 32
    assert received["model"]["decoder.embedding.weight"].index >= 0
    assert received["extra_state"]["bleu"]["counts"].tolist() == [3, 4]
    assert set(torch.serialization.get_safe_globals()) == set(before)


def test_a_copy_appears_whole_and_survives_its_source(tmp_path):
    source, copy = tmp_path / "a.pt", tmp_path / "b.pt"
    source.write_text("new")
    copy.write_text("old")
    (tmp_path / "b.pt.tmp").write_text("left by a killed run")
    assert link_or_copy(str(source), str(copy), overwrite=True)
    source.unlink()
    assert copy.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["b.pt"]


@pytest.mark.parametrize("interval, updates, name, complete", [
    (4, 8, "checkpoint_last.pt", ["checkpoint_2_8.pt", "checkpoint_last.pt"]),
    (4, 9, "checkpoint_last.pt", ["checkpoint_last.pt"]),
    (0, 8, "checkpoint_last.pt", ["checkpoint_last.pt"]),
    (4, 8, "checkpoint_2_8.pt", ["checkpoint_2_8.pt"]),
])  # fmt: skip
def test_a_checkpoint_to_average_is_there_also_at_the_end_of_an_epoch(
    tmp_path, interval, updates, name, complete
):
    (tmp_path / name).write_text("weights")
    checkpoint = SimpleNamespace(save_interval_updates=interval, save_dir=str(tmp_path))
    complete_checkpoints(checkpoint, os.path.join(tmp_path, name), 2, updates)
    assert sorted(path.name for path in tmp_path.iterdir()) == complete
    assert {path.read_text() for path in tmp_path.iterdir()} == {"weights"}


@pytest.mark.parametrize("returned, first, calls", [
    (None, True, [("a.pt", 8)]),  # fairseq 0.12.2, which calls no post_save
    (None, False, []),  # another process than the one that writes
    ("/a.pt", True, []),  # later versions, which call it themselves
])  # fmt: skip
def test_post_save_is_called_once_by_every_fairseq(returned, first, calls):
    called = []
    task = SimpleNamespace(post_save=lambda path, updates: called.append((path, updates)))
    trainer = SimpleNamespace(
        task=task, should_save_checkpoint_on_current_rank=first, get_num_updates=lambda: 8
    )
    save = with_post_save(lambda trainer, filename, extra_state: returned)
    assert save(trainer, "a.pt", {}) == returned and called == calls
