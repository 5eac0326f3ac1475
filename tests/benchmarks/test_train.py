"""`aiayn benchmark train`: both systems are measured, and a failing one gives one error."""

import json
import re
import sys
from argparse import Namespace

import pytest

from aiayn_plugin.benchmarks.train import training_options
from aiayn_plugin.benchmarks.train_worker import Training
from aiayn_plugin.cli import main


@pytest.mark.long
def test_both_systems_are_measured(corpus, tmp_path, capsys):
    out = tmp_path / "results.json"
    main(
        [
            *("benchmark", "train", str(corpus), "--cpu", "--max-tokens", "60", "120"),
            *("--runs", "2", "--updates", "1", "--memory-tokens", "90", "--profile"),
            *("--precisions", "float32", "bf16", "--output", str(out)),
        ]
    )
    ours, theirs = json.loads(out.read_text())
    assert (ours["system"], theirs["system"]) == ("plugin", "fairseq")
    for row in (ours, theirs):
        assert len(row["tokens_per_s"]) == 2 and min(row["tokens_per_s"]) > 0
        assert row["peak_bytes"] > 4 * 44e6  # the gradients of base's layers, in float32
        assert 0 <= row["padding"] < 0.5
    printed = capsys.readouterr().out
    assert "plugin / fairseq: speed" in printed and "at 90 tokens" in printed
    assert "Self CPU" in printed
    assert "aten::addmm" in printed or "mkldnn::_linear_pointwise" in printed


def test_a_run_in_the_working_directory_keeps_its_record(corpus, tmp_path, monkeypatch):
    """fairseq's default --save-dir is checkpoints."""
    (tmp_path / "checkpoints").mkdir()
    monkeypatch.chdir(tmp_path)
    args = Namespace(size="base", cpu=True)
    training = Training([*training_options(args, corpus, "plugin", "float32", 100), "--N", "1"])
    measured, [batch] = training.measure_speed(100, 1), training.batches(100, 1)
    assert not list((tmp_path / "checkpoints").iterdir())
    assert measured["tokens"] == batch["target"].ne(1).sum(), "of the target, without padding"


def test_fairseq_gets_the_path_by_which_the_plugin_was_imported(run, repo, tmp_path):
    """It refuses a different one, such as the target of a link."""
    (link := tmp_path / "link").symlink_to(repo)
    program = "from aiayn_plugin.benchmarks.train import PLUGIN; print(PLUGIN)"
    shown = run(sys.executable, "-c", program, cwd=tmp_path, env={"PYTHONPATH": str(link)})
    assert shown.stdout.strip() == str(link / "aiayn_plugin"), shown.stderr


@pytest.mark.long
def test_a_failing_training_run_is_one_error(tmp_path, error):
    message = error("benchmark", "train", tmp_path, "--cpu")
    assert re.match("measuring .* failed: .", message) and "error: " not in message
    assert not message.endswith("no output")


@pytest.mark.usefixtures("quiet")
def test_an_update_that_runs_out_of_memory_is_not_measured_as_a_fast_one(corpus):
    """fairseq by default logs the error and continues with the next batch."""
    argv = ["--arch", "aiayn_tiny", "--cpu", "--disable-validation", "--no-save"]
    training = Training([str(corpus), *argv, "--num-workers", "0"])
    [batch] = training.batches(1000, 1)
    assert training.update([batch])

    def run_out_of_memory(*_):
        raise RuntimeError("CUDA out of memory. Tried to allocate 1.00 TiB")

    training.trainer.model.register_forward_pre_hook(run_out_of_memory)
    with pytest.raises(RuntimeError, match="^CUDA out of memory"):
        training.update([batch])
