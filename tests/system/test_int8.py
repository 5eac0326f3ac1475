"""fairseq-generate --int8 and --bf16, and what --int8 cannot be combined with."""

import re

from commands import SMALL, last_line

PAPER = ["--user-dir", "aiayn_plugin", "--cpu"]


def test_generating_in_lower_precisions(run, corpus, model_dir):
    found = []
    for options in ([], ["--int8"], ["--bf16"]):
        log = run(
            *("fairseq-generate", corpus, *PAPER, "--path", model_dir / "model.pt"),
            *("--max-len-b", "8", *options),
        )
        assert log.returncode == 0, log.stderr
        found.append(dict(re.findall(r"^(H-\d+)\t(\S+)", log.stdout, re.MULTILINE)))
    exact, *others = found
    for rounded in others:
        assert exact.keys() == rounded.keys()
        differences = [float(rounded[line]) - float(score) for line, score in exact.items()]
        assert 0 < max(map(abs, differences)) < 0.3


def test_int8_excludes_other_precisions(run, corpus, model_dir):
    log = run(
        "fairseq-generate", corpus, *PAPER, "--path", model_dir / "model.pt", "--int8", "--fp16"
    )
    assert log.returncode == 1
    assert last_line(log).startswith(
        "fairseq-generate: error: int8 needs a float32 model on a CPU: give --cpu"
    )


def test_training_in_int8_is_an_error(run, corpus, tmp_path):
    log = run(
        *("fairseq-train", corpus, *PAPER, *SMALL, "--max-update", "1", "--int8", "--eval-bleu"),
        *("--eval-bleu-args", "{}", "--save-dir", tmp_path),
    )
    assert log.returncode == 1
    assert "--int8 is for translation" in last_line(log)
