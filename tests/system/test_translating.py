"""Whole translations, from a directory that is not the checkout, with the installed plugin."""

import re

import pytest


@pytest.fixture(scope="module")
def model(run, corpus, tmp_path_factory):
    """A hardly trained model: the mean of its last two checkpoints."""
    folder = tmp_path_factory.mktemp("model")
    log = run(
        "fairseq-train", corpus, "--user-dir", "aiayn_plugin", "--arch", "aiayn_tiny", "--cpu",
        "--N", "1", "--save-dir", folder, "--max-update", "20", "--save-interval-updates", "10",
        "--disable-validation", "--warmup-updates", "10", cwd=folder,
    )
    assert log.returncode == 0, log.stderr
    log = run("aiayn", "average", "--inputs", ".", "--num-update-checkpoints", "2",
              "--output", "model.pt", cwd=folder)
    assert log.returncode == 0, log.stderr
    return folder / "model.pt"


def generate(run, corpus, model, tmp_path, *flags):
    log = run("fairseq-generate", corpus, "--user-dir", "aiayn_plugin", "--path", model, "--cpu",
              "--max-len-b", "8", "--batch-size", "100", *flags, cwd=tmp_path)
    assert log.returncode == 0, log.stderr
    return log.stdout


@pytest.mark.parametrize("subset, sentences", [("valid", 1014), ("test", 5)])
def test_no_sentence_is_lost(run, corpus, model, tmp_path, subset, sentences):
    out = generate(run, corpus, model, tmp_path, "--gen-subset", subset, "--beam", "2")
    numbers = [int(n) for n in re.findall(r"^H-(\d+)\t", out, re.MULTILINE)]
    assert sorted(numbers) == list(range(sentences))
    (tmp_path / "log").write_text(out)
    scored = run("aiayn", "score", "log", "--data", corpus, "--split", subset, "--output", "out.de",
                 cwd=tmp_path)
    assert scored.returncode == 0, scored.stderr
    assert f"({sentences:,} sentences)" in scored.stdout
    assert len((tmp_path / "out.de").read_text().splitlines()) == sentences
    bad = run("aiayn", "score", "log", "--data", corpus, "--split", subset, "--min-exact", "101",
              cwd=tmp_path)
    assert (bad.returncode, bad.stderr.count("\n")) == (1, 1)


def test_alignment_and_fairseqs_own_task(run, corpus, model, tmp_path):
    out = generate(run, corpus, model, tmp_path, "--gen-subset", "test", "--print-alignment")
    assert len(re.findall(r"^A-\d+\t", out, re.MULTILINE)) == 5
    command = ["fairseq-generate", corpus, "--user-dir", "aiayn_plugin", "--path", model, "--cpu",
               "--gen-subset", "test", "--max-len-b", "8", "--required-batch-size-multiple", "1"]
    for typed, name in (([], "aiayn_translation"), (["--task", "translation"], "translation")):
        log = run(*command, *typed, cwd=tmp_path)
        assert log.returncode == 0, log.stderr
        assert f"'task': {{'_name': '{name}'" in log.stdout + log.stderr
        assert len(re.findall(r"^H-\d+\t", log.stdout, re.MULTILINE)) == 5


def test_validation_runs_without_a_task(run, corpus, model, tmp_path):
    log = run("fairseq-validate", corpus, "--user-dir", "aiayn_plugin", "--path", model, "--cpu",
              "--max-tokens", "4000", "--log-format", "json", cwd=tmp_path)
    assert log.returncode == 0, log.stderr
    assert '"valid_ppl": ' in log.stdout + log.stderr


def test_interactive_translates_a_typed_line(run, corpus, model, tmp_path):
    (tmp_path / "in.txt").write_text("Mar@@ ch 3\n")
    log = run("fairseq-interactive", corpus, "--user-dir", "aiayn_plugin", "--path", model,
              "--cpu", "--input", "in.txt", "--max-len-b", "8", cwd=tmp_path)
    assert log.returncode == 0, log.stderr
    assert len(re.findall(r"^H-0\t", log.stdout, re.MULTILINE)) == 1
