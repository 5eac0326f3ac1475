"""The table at the head of a training log."""

import sys

import fairseq
import pytest
import torch
from models import configuration

from aiayn_plugin.fairseq_plugin import training_log as log
from aiayn_plugin.kernels.device import device_name

pytestmark = pytest.mark.usefixtures("quiet")


def test_given_flags_are_used_and_marked():
    cfg = configuration(
        *("--arch", "aiayn_big", "--lr-scheduler", "fixed", "--lr", "0.001"),
        *("--label-smoothing", "0.2", "--dropout", "0.1", "--max-update", "7", "--clip-norm", "1"),
        *("--adam-betas", "(0.9, 0.99)", "--d-ff", "64", "--save-interval-updates", "11"),
    )
    assert cfg.lr_scheduler._name == "fixed" and list(cfg.optimization.lr) == [0.001]
    assert cfg.lr_scheduler.warmup_updates == 0, "another scheduler keeps its own default"
    changed = {name for name, paper, run in log.compare_with_paper(cfg) if paper != run}
    names = "lr_scheduler label_smoothing dropout max_update clip_norm adam_betas d_ff"
    names += " save_interval_updates warmup_updates peak_learning_rate"
    assert changed == set(names.split())
    rows = log.format_table(cfg).splitlines()
    marked = {line.split()[0] for line in rows if line.endswith("< changed")}
    assert marked == changed


def test_the_environment_and_command_of_a_run(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/x/bin/fairseq-train", "a b", "--cpu"])
    found = log.describe_environment(configuration("--arch", "aiayn_tiny", "--cpu"))
    assert f"torch {torch.__version__}, fairseq {fairseq.__version__}" in found["versions"]
    assert found["device"] == device_name("cpu") != ""
    assert found["command"] == "fairseq-train 'a b' --cpu"


@pytest.mark.parametrize("flags", [("--optimizer", "sgd"), ("--lr-scheduler", "manual")])
def test_fairseqs_older_components_are_in_the_table_too(flags):
    """Their settings are a Namespace of all options, not a separate group."""
    rows = dict(
        (name, run)
        for name, _, run in log.compare_with_paper(
            configuration("--arch", "aiayn_tiny", "--lr", "0.5", "--lr-scheduler", "fixed", *flags)
        )
    )
    assert rows[flags[0][2:].replace("-", "_")] == flags[1] and rows["N"] == 2
    assert rows["peak_learning_rate"] == "0.5"
