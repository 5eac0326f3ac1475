"""The mends of fairseq and torch."""

import argparse
import io
import os
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data.iterators import BufferedIterator
from fairseq.distributed import utils as distributed_utils
from models import Hostile, parse, rates_taken, trainer

from aiayn_plugin.boundary.mends import (
    complete_checkpoints,
    finish_data_threads,
    input_error,
    keep_every_sentence,
    link_or_copy,
)
from aiayn_plugin.errors import InputError
from aiayn_plugin.training.optimizer import lrate


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


def test_other_errors_are_none_of_ours():
    assert input_error(None) is None
    assert input_error(behind(ValueError("InputError: x"), KeyError("y"))) is None


def test_the_input_error_of_a_gpus_process_is_found_in_its_text():
    """torch.multiprocessing calls lrate(0, 512, 0) in a process of its own."""
    with pytest.raises(torch.multiprocessing.ProcessRaisedException) as failure:
        torch.multiprocessing.spawn(lrate, args=(512, 0), nprocs=1)
    assert input_error(failure.value) == "--warmup-updates must be at least 1, not 0"


def test_another_error_of_a_gpus_process_is_none_of_ours():
    with pytest.raises(torch.multiprocessing.ProcessRaisedException) as failure:
        torch.multiprocessing.spawn(lrate, args=("x", 1), nprocs=1)
    assert "TypeError" in str(failure.value) and input_error(failure.value) is None


@pytest.mark.parametrize("imported, mended", [
    ("fairseq.models", "False"), ("fairseq_cli.train", "True"),
])  # fmt: skip
def test_only_fairseqs_commands_end_with_one_line(run, imported, mended):
    """A program of someone else's keeps its sys.excepthook."""
    program = (f"import sys, {imported}; hook = sys.excepthook; import aiayn_plugin; "
               "print(sys.excepthook is not hook)")
    log = run(sys.executable, "-c", program)
    assert log.returncode == 0, log.stderr
    assert log.stdout.splitlines()[-1] == mended


@pytest.mark.usefixtures("quiet")
def test_bf16_is_no_tpu():
    args = parse("--arch", "aiayn_base", "--bf16")
    assert args.bf16 and not args.tpu
    assert parse("--arch", "aiayn_base", "--bf16", "--tpu").tpu


def test_batches_need_be_no_multiple_of_eight():
    options = {"required_batch_size_multiple": 8, "seed": 1}
    keep_every_sentence(options)
    assert options == {"required_batch_size_multiple": 1, "seed": 1}


def test_fairseq_refuses_a_checkpoint_that_runs_code(tmp_path, capsys):
    torch.save({"model": Hostile(), "cfg": None, "args": None}, tmp_path / "hostile.pt")
    with pytest.raises(Exception, match="(?i)weights.?only"):
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "hostile.pt"))
    assert "this must not run" not in capsys.readouterr().out


def test_fairseq_loads_what_it_stores_itself(tmp_path):
    stored = {"args": argparse.Namespace(arch="x"), "extra": {"bleu": np.float64(37.5),
              "counts": np.array([3, 4])}, "model": {}, "optimizer_history": []}
    torch.save(stored, tmp_path / "good.pt")
    loaded = torch.load(tmp_path / "good.pt")
    assert loaded["args"].arch == "x"
    assert loaded["extra"]["bleu"] == 37.5 and loaded["extra"]["counts"].tolist() == [3, 4]


@pytest.mark.usefixtures("quiet")
def test_what_processes_of_a_resumed_run_send_each_other(corpus, tmp_path):
    """Rank 0 sends the others its checkpoint with a number in place of each tensor."""
    training, epoch = trainer(corpus, tmp_path)
    rates_taken(training, epoch, 1)
    checkpoint_utils.save_checkpoint(training.cfg.checkpoint, training, epoch, 1.0)
    state = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "checkpoint_last.pt"))
    buffer = io.BytesIO()
    torch.save(distributed_utils._split_tensors_from_obj(state, []), buffer)
    buffer.seek(0)
    received = torch.load(buffer, map_location="cpu")
    assert received["cfg"].model.d_model == 32
    assert received["model"]["decoder.embedding.weight"].index >= 0


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


class SlowBatches(list):
    """Batches of which each takes 50 ms to make."""

    def __iter__(self):
        for batch in super().__iter__():
            time.sleep(0.05)
            yield batch


@pytest.mark.parametrize("size, batches", [(2, 1000), (1000, 1000), (5, 3)])
def test_no_thread_makes_batches_when_python_ends(size, batches):
    buffered = BufferedIterator(size, SlowBatches(range(batches)))
    assert next(buffered) == 0
    finish_data_threads()
    assert not buffered._consumer.is_alive()
