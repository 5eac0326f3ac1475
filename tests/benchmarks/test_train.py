"""`aiayn benchmark train`: both sides are measured, and an impossible one is one error."""

import json

import pytest

from aiayn_plugin.benchmarks import train_worker
from aiayn_plugin.cli import main


@pytest.mark.long
def test_training_is_measured_beside_fairseqs(corpus, tmp_path, capsys):
    out = tmp_path / "found.json"
    main(
        [
            "benchmark",
            "train",
            str(corpus),
            "--cpu",
            "--max-tokens",
            "60",
            "120",
            "--runs",
            "2",
            "--updates",
            "1",
            "--memory-tokens",
            "90",
            "--profile",
            "--output",
            str(out),
        ]
    )
    ours, theirs = json.loads(out.read_text())
    assert (ours["way"], theirs["way"]) == ("plugin", "fairseq")
    for row in (ours, theirs):
        assert len(row["tokens_per_s"]) == 2 and min(row["tokens_per_s"]) > 0
        assert row["peak_bytes"] > 4 * 44e6  # the gradients of base's layers, in float32
        assert 0 <= row["padding"] < 0.5
    printed = capsys.readouterr().out
    assert "plugin / fairseq: speed" in printed and "at 90 tokens" in printed
    assert "Self CPU" in printed
    assert "aten::addmm" in printed or "mkldnn::_linear_pointwise" in printed


def test_a_training_that_cannot_run_is_one_error(tmp_path):
    with pytest.raises(SystemExit, match="^aiayn: error: the training .* failed: ") as error:
        main(["benchmark", "train", str(tmp_path), "--cpu"])
    said = str(error.value)
    assert "\n" not in said and said.count("error: ") == 1 and not said.endswith("failed: ")


@pytest.mark.usefixtures("quiet")
def test_an_update_that_is_not_taken_is_no_fast_one(corpus, monkeypatch):
    """fairseq logs too little memory, and goes on with the next batch as if nothing were."""
    argv = ["--arch", "aiayn_tiny", "--cpu", "--disable-validation", "--no-save"]
    training = train_worker.Training([str(corpus), *argv, "--num-workers", "0"])
    [batch] = training.batches(1000, 1)
    training.update([batch])

    def out_of_memory(*args, **kwargs):
        raise RuntimeError("CUDA out of memory. Tried to allocate 1.00 TiB")

    monkeypatch.setattr(training.task, "train_step", out_of_memory)
    with pytest.raises(RuntimeError, match="^CUDA out of memory"):
        training.update([batch])
