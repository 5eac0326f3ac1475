"""Bad input of whole commands: one line that says what to change, and exit status 1."""

import re
from importlib.util import find_spec

import numpy as np
import pytest
from commands import TRAIN, last_line


def test_a_sentence_longer_than_the_model_takes(run, corpus, model_dir, tmp_path):
    command = [
        *("fairseq-generate", corpus, "--user-dir", "aiayn_plugin", "--cpu"),
        *("--path", model_dir / "checkpoint_last.pt", "--gen-subset", "test", "--max-len-b", "5"),
    ]
    log = run(*command, "--max-source-positions", "4", cwd=tmp_path)
    assert "exceed the (source, target) limits (4, 1024)" in last_line(log)
    assert re.search(r"sentence \d with \(\d+, \d+\) tokens", last_line(log))


@pytest.mark.skipif(hasattr(np, "compat"), reason="numpy 1")
def test_an_option_that_fails_with_numpy_2(run, corpus, tmp_path):
    log = run(
        *("fairseq-train", corpus, "--user-dir", "aiayn_plugin", "--arch", "aiayn_base", "--cpu"),
        *("--save-dir", tmp_path, "--num-batch-buckets", "4"),
    )
    assert last_line(log) == (
        "fairseq-train: error: --num-batch-buckets fails in fairseq with numpy 2: omit it "
        "(sentences are sorted by length in any case), or install numpy<2"
    )


@pytest.mark.parametrize(
    "options, message",
    [
        ("--best-checkpoint-metric nll_los", "nll_los is unknown: choose from loss, nll_loss, ppl"),
        ("--continue-once absent.pt", "--continue-once absent.pt is missing"),
        ("--valid-subset valid,train", "--valid-subset valid,train includes the training set"),
        ('--eval-bleu --eval-bleu-args {"beams":4}', "beams is not an option of the search"),
    ],
)
def test_options_that_would_fail_later_end_a_training_at_its_start(
    run, corpus, tmp_path, options, message
):
    command = ["fairseq-train", corpus, *TRAIN, "--max-update", "1", "--save-dir", tmp_path]
    assert message in last_line(run(*command, *options.split()))
    assert not list(tmp_path.glob("*.pt"))


def test_a_missing_tensorboard_ends_a_training_at_its_start(run, corpus, tmp_path):
    hidden = [name for name in ("tensorboard", "tensorboardX") if find_spec(name)]
    for module in hidden:
        (tmp_path / f"{module}.py").write_text("raise ImportError")
    log = run(
        *("fairseq-train", corpus, *TRAIN, "--tensorboard-logdir", "logs", "--max-update", "1"),
        *("--disable-validation", "--save-dir", tmp_path),
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)} if hidden else None,
    )
    assert last_line(log) == (
        "fairseq-train: error: --tensorboard-logdir needs tensorboard, which is missing: "
        "pip install tensorboard"
    )
