"""`aiayn report` on a training that was killed and started again."""

import itertools
import json
import shutil

import pytest
from commands import TRAIN, killed


def test_a_killed_training_is_reported_as_one(run, corpus, tmp_path):
    fairseq_train, aiayn = (shutil.which(name) for name in ("fairseq-train", "aiayn"))
    if fairseq_train is None or aiayn is None:
        pytest.skip("needs the installed commands: bash examples/setup.sh")
    command = [
        fairseq_train,
        corpus,
        *TRAIN,
        "--log-format",
        "json",
        "--max-update",
        "40",
        "--save-interval-updates",
        "10",
        "--validate-interval-updates",
        "10",
        "--save-dir",
        tmp_path / "checkpoints",
    ]
    first = tmp_path / "first.log"

    def has_25_updates() -> bool:
        return '"num_updates": "25"' in first.read_text()

    assert killed(command, first, has_25_updates)
    second = run(*command)
    assert second.returncode == 0, second.stderr
    log = tmp_path / "train.log"
    log.write_bytes(first.read_bytes() + second.stdout.encode())
    said = run(aiayn, "report", log)
    assert said.returncode == 0 and said.stderr == "", said.stderr
    found = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["runs"][0]
    trained, validated = (found["log"][kind] for kind in ("train", "valid"))
    assert [point["update"] for point in trained] == list(range(1, 41))
    assert {10, 20, 30, 40} <= {point["update"] for point in validated}  # and ends of epochs
    assert len({point["update"] for point in validated}) == len(validated)
    assert [start["update"] for start in found["log"]["starts"]] == [0, 20]
    hours = [point["hours"] for point in trained]
    assert all(a <= b for a, b in itertools.pairwise(hours)) and found["log"]["finished"]
    cost = found["cost"]
    assert cost["parameters"] == cost["formula_parameters"]
    assert cost["counted"] > 0 and "device" in cost["papers_way"]
    facts = found["log"]["facts"]
    assert facts["command"].startswith("fairseq-train ") and "--max-update 40" in facts["command"]
    assert facts["versions"] and facts["device"] == cost["device"]
