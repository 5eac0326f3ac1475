"""Bad input of whole commands: one line that says what to change, and exit status 1."""

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
    log = run("fairseq-train", corpus, *TRAIN, "--h", "2", "--d-k", "3", "--positions", "learned",
              "--save-dir", trained)
    assert "holds another architecture" in last_line(log)
    assert "(64, 16) in it" not in last_line(log)
    log = run("fairseq-train", corpus, *TRAIN, "--save-dir", trained)
    assert "decoder.positions.weight is (1024, 16) in it and missing here" in last_line(log)


def test_a_sentence_longer_than_the_model_takes(run, corpus, trained, tmp_path):
    command = ["fairseq-generate", corpus, "--user-dir", "aiayn_plugin", "--cpu", "--path",
               trained / "checkpoint_last.pt", "--gen-subset", "test", "--max-len-b", "5"]
    log = run(*command, "--max-source-positions", "4", cwd=tmp_path)
    assert "longer than the (source, target) limits (4, 1024)" in last_line(log)
    log = run(*command, "--max-source-positions", "4", "--skip-invalid-size-inputs-valid-test",
              cwd=tmp_path)
    assert log.returncode == 0, log.stderr


@pytest.mark.parametrize("flags, message", [
    (["--h", "5"], "d_model 16 is not divisible by h 5"),
    (["--d-k", "0"], "d_k 0 and d_v 4 must be at least 1"),
    (["--neighbourhood", "0"], "neighbourhood 0 must be at least 1"),
    (["--d-model", "15", "--d-k", "4", "--d-v", "4"], "even d_model, not 15"),
])  # fmt: skip
def test_impossible_sizes(run, corpus, tmp_path, flags, message):
    log = run("fairseq-train", corpus, *TRAIN, *flags, "--save-dir", tmp_path)
    assert message in last_line(log)
