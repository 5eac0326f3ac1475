"""`aiayn benchmark`: it measures, and restricted attention's memory grows with n alone."""

import json

import pytest

from aiayn_plugin.cli import main


def test_restricted_attention_takes_memory_in_proportion_to_n(tmp_path, capsys):
    out = tmp_path / "found.json"
    main(["benchmark", "attention", "--neighbourhood", "16", "--lengths", "512", "1024",
          "--runs", "1", "--device", "cpu", "--output", str(out)])  # fmt: skip
    rows = {(row["n"], row["way"]): row for row in json.loads(out.read_text())["rows"]}
    for quantity in ("forward_bytes", "backward_bytes"):
        grown = {
            way: rows[1024, way][quantity] / rows[512, way][quantity]
            for way in ("restricted", "full, by steps")
        }
        assert grown["restricted"] == pytest.approx(2, rel=0.1)
        assert grown["full, by steps"] > 3
    assert all(row["forward_s"] > 0 and row["backward_s"] > 0 for row in rows.values())
    assert "full / restricted, r = 16" in capsys.readouterr().out


@pytest.mark.parametrize("flags", [["--neighbourhood", "0"], ["--runs", "0"], ["--lengths", "0"]])
def test_bad_settings_are_refused(flags):
    with pytest.raises(SystemExit, match="at least 1"):
        main(["benchmark", "attention", *flags])


@pytest.mark.long
def test_training_is_measured_beside_fairseqs(corpus, tmp_path, capsys):
    out = tmp_path / "found.json"
    main(["benchmark", "train", str(corpus), "--cpu", "--max-tokens", "60", "120", "--runs", "2",
          "--updates", "1", "--memory-tokens", "90", "--profile",
          "--output", str(out)])  # fmt: skip
    ours, theirs = json.loads(out.read_text())
    assert (ours["way"], theirs["way"]) == ("plugin", "fairseq")
    for row in (ours, theirs):
        assert len(row["tokens_per_s"]) == 2 and min(row["tokens_per_s"]) > 0
        assert row["peak_bytes"] > 4 * 44e6  # the gradients of base's layers, in float32
        assert 0 <= row["padding"] < 0.5
    printed = capsys.readouterr().out
    assert "plugin / fairseq: speed" in printed and "at 90 tokens" in printed
    assert "aten::addmm" in printed and "Self CPU" in printed


def test_a_training_that_cannot_run_is_one_error(tmp_path):
    with pytest.raises(SystemExit, match="failed: "):
        main(["benchmark", "train", str(tmp_path), "--cpu"])
