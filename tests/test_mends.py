"""The mends of fairseq and torch."""

import argparse
import time

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data.iterators import BufferedIterator

from aiayn_plugin.boundary.mends import finish_data_threads, link_or_copy


class Hostile:
    def __reduce__(self):
        return print, ("this must not run",)


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


def test_a_copy_appears_whole_and_survives_its_source(tmp_path):
    source, copy = tmp_path / "a.pt", tmp_path / "b.pt"
    source.write_text("new")
    copy.write_text("old")
    (tmp_path / "b.pt.tmp").write_text("left by a killed run")
    assert link_or_copy(str(source), str(copy), overwrite=True)
    source.unlink()
    assert copy.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["b.pt"]


class SlowBatches(list):
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
