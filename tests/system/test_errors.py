"""Bad input of whole commands: one line that says what to change, and exit status 1."""

import re

import pytest

TRAIN = ["--user-dir", "aiayn_plugin", "--arch", "aiayn_tiny", "--N", "1", "--d-model", "16",
         "--cpu", "--max-update", "1", "--disable-validation", "--num-workers", "0"]


@pytest.fixture(scope="module")
def trained(run, corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    log = run("fairseq-train", corpus, *TRAIN, "--positions", "learned", "--save-dir", folder)
    assert log.returncode == 0, log.stderr
    return folder


def last_line(log):
    assert log.returncode == 1
    assert "Traceback" not in log.stderr
    return log.stderr.strip().splitlines()[-1]


def test_a_checkpoint_of_another_architecture(run, corpus, trained):
    log = run("fairseq-train", corpus, *TRAIN, "--save-dir", trained)
    assert "decoder.positions.weight is (1024, 16) in it and missing here" in last_line(log)


def test_a_sentence_longer_than_the_model_takes(run, corpus, trained, tmp_path):
    command = ["fairseq-generate", corpus, "--user-dir", "aiayn_plugin", "--cpu", "--path",
               trained / "checkpoint_last.pt", "--gen-subset", "test", "--max-len-b", "5"]
    log = run(*command, "--max-source-positions", "4", cwd=tmp_path)
    assert "longer than the (source, target) limits (4, 1024)" in last_line(log)
    assert re.search(r"sentence \d has \(\d+, \d+\) tokens", last_line(log))


def test_impossible_sizes(run, corpus, tmp_path):
    log = run("fairseq-train", corpus, *TRAIN, "--h", "5", "--save-dir", tmp_path)
    assert "d_model 16 is not divisible by h 5: change one of them" in last_line(log)
