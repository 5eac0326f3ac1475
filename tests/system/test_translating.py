"""§6.1 Translating with fairseq's commands, from a directory other than the checkout."""

import re

import pytest
from commands import last_line


@pytest.fixture(scope="module")
def model(run, model_dir, tmp_path_factory):
    """The average of the last two checkpoints of a barely trained model."""
    path = tmp_path_factory.mktemp("model") / "model.pt"
    log = run(
        *("aiayn", "average", "--inputs", ".", "--num-update-checkpoints", "2", "--output", path),
        cwd=model_dir,
    )
    assert log.returncode == 0, log.stderr
    return path


def generate(run, corpus, model, tmp_path, *flags):
    """Return the output of fairseq-generate for one of the plugin's models."""
    log = run(
        *("fairseq-generate", corpus, "--user-dir", "aiayn_plugin", "--path", model, "--cpu"),
        *("--max-len-b", "8", "--batch-size", "100", *flags),
        cwd=tmp_path,
    )
    assert log.returncode == 0, log.stderr
    return log.stdout


def test_no_sentence_is_lost(run, corpus, model, tmp_path):
    subset, sentences = "valid", 214
    out = generate(run, corpus, model, tmp_path, "--gen-subset", subset, "--beam", "2")
    numbers = [int(n) for n in re.findall(r"^H-(\d+)\t", out, re.MULTILINE)]
    assert sorted(numbers) == list(range(sentences))
    (tmp_path / "log").write_text(out)
    scored = run(
        *("aiayn", "score", "log", "--data", corpus, "--split", subset, "--output", "out.de"),
        cwd=tmp_path,
    )
    assert scored.returncode == 0, scored.stderr
    assert f"({sentences:,} sentences)" in scored.stdout
    assert len((tmp_path / "out.de").read_text().splitlines()) == sentences
    for *options, message in (
        ("--split", subset, "--min-exact", "100", "is below --min-exact 100%"),
        ("--split", {"valid": "test", "test": "valid"}[subset], "are not those of"),
    ):
        bad = run("aiayn", "score", "log", "--data", corpus, *options, cwd=tmp_path)
        assert message in last_line(bad) and bad.stderr.count("\n") == 1


def test_alignment_and_fairseqs_own_task(run, corpus, model, tmp_path):
    out = generate(run, corpus, model, tmp_path, "--gen-subset", "test", "--print-alignment")
    assert len(re.findall(r"^A-\d+\t", out, re.MULTILINE)) == 5
    log = run(
        *("fairseq-generate", corpus, "--user-dir", "aiayn_plugin", "--path", model, "--cpu"),
        *("--gen-subset", "test", "--max-len-b", "8", "--required-batch-size-multiple", "1"),
        *("--task", "translation"),
        cwd=tmp_path,
    )
    assert log.returncode == 0, log.stderr
    assert "'task': {'_name': 'translation'" in log.stdout + log.stderr
    assert len(re.findall(r"^H-\d+\t", log.stdout, re.MULTILINE)) == 5


@pytest.mark.parametrize(
    "command, flags",
    [
        ("fairseq-generate", ["--gen-subset", "test"]),
        ("fairseq-generate", ["--gen-subset", "test", "--int8"]),
    ],
)
def test_a_generator_may_be_built_before_the_weights_are_loaded(
    run, corpus, model, tmp_path, command, flags
):
    """--eval-bleu builds one together with the model."""
    log = run(
        *(command, corpus, "--user-dir", "aiayn_plugin", "--path", model, "--cpu", *flags),
        *("--eval-bleu", "--eval-bleu-args", '{"beam": 2, "max_len_b": 8}'),
        cwd=tmp_path,
    )
    assert log.returncode == 0, log.stderr
    assert re.search(r"BLEU4 = |\| bleu \d", log.stdout + log.stderr)


def test_options_of_fairseq_generate(run, corpus, model, tmp_path):
    out = generate(
        *(run, corpus, f"{model}:{model}", tmp_path, "--gen-subset", "test", "--nbest", "3"),
        *("--prefix-size", "1", "--bf16", "--scoring", "paper_bleu", "--remove-bpe"),
    )
    targets = dict(re.findall(r"^T-(\d+)\t(\S+)", out, re.MULTILINE))
    found = re.findall(r"^H-(\d+)\t(\S+)\t(\S*)", out, re.MULTILINE)
    assert len(found) == 3 * 5
    for number in targets:
        scores = [float(score) for n, score, _ in found if n == number]
        assert len(scores) == 3 and scores == sorted(scores, reverse=True)
    # the first subword is given, which is the word's first letter at least
    assert all(word[0] == targets[number][0] for number, _, word in found)
    scores = r"paper BLEU = [\d.]+ \(de; .*unknown words: .*; sacreBLEU against .*nrefs:1"
    assert re.search(scores, out)
    sampled = generate(
        *(run, corpus, model, tmp_path, "--gen-subset", "test", "--sampling", "--beam", "1"),
        *("--scoring", "paper_bleu"),
    )
    assert len(re.findall(r"^H-(\d+)\t", sampled, re.MULTILINE)) == 5
    assert "SUBWORDS, not words: give --remove-bpe" in sampled


def test_invalid_settings_are_reported_in_one_line(run, corpus, model, tmp_path):
    log = run(
        *("fairseq-generate", corpus, "--user-dir", "aiayn_plugin", "--path", model, "--cpu"),
        *("--gen-subset", "test", "--max-tokens", "2"),
        cwd=tmp_path,
    )
    assert log.returncode == 1
    errors = [line for line in log.stderr.splitlines() if "error: " in line]
    assert len(errors) == 1 and "Traceback" not in log.stderr
    assert "--max-tokens (or --max-tokens-valid) 2 is below the longest sentence" in errors[0]


def test_interactive_translates_a_typed_line(run, corpus, model, tmp_path):
    (tmp_path / "in.txt").write_text("March 3\n\nMonday\n")
    log = run(
        *("fairseq-interactive", corpus, "--user-dir", "aiayn_plugin", "--path", model, "--cpu"),
        *("--input", "in.txt", "--max-len-b", "8"),
        cwd=tmp_path,
    )
    assert log.returncode == 0, log.stderr
    assert re.findall(r"^H-(\d)\t", log.stdout, re.MULTILINE) == ["0", "1", "2"]
