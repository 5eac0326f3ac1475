"""`aiayn report` on runs of fairseq-train: killed and resumed, and with fairseq's own model."""

import itertools
import json
import sys
from pathlib import Path

import pytest
from commands import PLUGIN, STOCK_TRAINING, TRAIN, killed, stock_model


@pytest.fixture
def report_on(run):
    """`report_on(path)` runs `aiayn report` and returns what its JSON holds of the run."""

    def report(path):
        done = run("aiayn", "report", path)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        stem = path if path.is_dir() else path.parent
        return json.loads((stem / "report.json").read_text(encoding="utf-8"))["runs"][0]

    return report


@pytest.mark.long
def test_a_killed_run_is_reported_as_one(succeed, repo, corpus, tmp_path, report_on):
    save_dir = tmp_path / "checkpoints"
    intervals = ("--save-interval-updates", "10", "--validate-interval-updates", "10")
    command = ["fairseq-train", corpus, *TRAIN, "--log-format", "none", "--max-update", "40"]
    command += [*intervals, "--save-dir", save_dir]
    record = save_dir / "run.jsonl"

    def has_25_updates() -> bool:
        return record.exists() and '"update": 25,' in record.read_text(encoding="utf-8")

    program = Path(sys.executable).with_name("fairseq-train")
    assert killed([program, *command[1:]], tmp_path / "first.log", has_25_updates)
    with open(record, "a") as file:
        file.write('{"event": "interval", "upd')  # as a process that is killed while it writes
    succeed(*command)
    found = report_on(tmp_path)
    training, facts = found["training"], found["facts"]
    assert [point["update"] for point in training["train"]] == list(range(1, 41))
    validated = [point["update"] for point in training["valid"]]
    assert {10, 20, 30, 40} <= set(validated)  # and ends of epochs
    assert len(set(validated)) == len(validated)
    assert [update for update, _ in training["starts"]] == [0, 20]
    hours = [point["hours"] for point in training["train"]]
    assert all(a <= b for a, b in itertools.pairwise(hours)) and training["finished"]
    assert all({"loss", "ppl", "lr", "gnorm"} <= p["values"].keys() for p in training["train"])
    assert found["faults"] == [
        "checkpoints/run.jsonl: 1 × line that is not a record of a training run"
    ]
    cost = found["cost"]
    assert facts["parameters"] == cost["formula_parameters"]
    assert cost["counted"] > 0 and "device" in cost["estimated"]
    assert facts["command"].startswith("fairseq-train ") and "--max-update 40" in facts["command"]
    assert facts["versions"] and facts["device"] and facts["seed"] == 1
    assert facts["pairs"]["valid"] == 214 and facts["kept"].startswith("training pairs: ")
    settings = {row["name"]: row["run"] for row in facts["settings"]}
    assert (settings["d_model"], settings["max_update"]) == (32, 40)
    words = len((corpus / "dict.de.txt").read_text(encoding="utf-8").splitlines())
    assert facts["dictionaries"]["target"] in range(words + 4, words + 12)  # fairseq pads to 8
    source, target = facts["batches"]["source_tokens"], facts["batches"]["target_tokens"]
    logged = [point["values"]["wpb"] for point in training["epochs"]]
    assert logged[0] == pytest.approx(target, rel=0.1) and source != target


def test_fairseqs_own_model_is_recorded_under_the_plugins_task(
    succeed, corpus, tmp_path, report_on
):
    """Its --save-dir is not a run directory, and it translates the data in reverse."""
    model = [*stock_model(32, 64, 2), "--task", "aiayn_translation", *STOCK_TRAINING]
    model.remove("--disable-validation")
    succeed(
        *("fairseq-train", corpus, "--user-dir", PLUGIN, *model, "--lr", "0.001"),
        *("--max-tokens", "2000", "--max-update", "4", "--log-interval", "2"),
        *("--save-dir", tmp_path / "mine", "-s", "de", "-t", "en"),
    )
    found = report_on(tmp_path / "mine")
    assert [point["update"] for point in found["training"]["train"]] == [2, 4]
    assert found["training"]["valid"][-1]["update"] == 4 and found["training"]["finished"]
    text = found["facts"]["text"]  # the data are prepared for English to German
    assert (text["source_lang"], text["target_lang"]) == ("de", "en")
    assert found["facts"]["architecture"] == "transformer" and found["facts"]["settings"] == []
    assert found["facts"]["parameters"] > 0 and found["faults"] == []
    assert found["missing"] == ["scores.json"]
