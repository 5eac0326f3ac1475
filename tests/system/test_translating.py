"""§6.1 Translating with fairseq-generate, from a directory other than the checkout."""

import re

import pytest


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
    assert "can_reuse_epoch_itr" not in log.stdout + log.stderr, "debugging"
    return log.stdout


def test_no_sentence_is_lost(run, corpus, model, tmp_path):
    out = generate(run, corpus, model, tmp_path, "--gen-subset", "valid", "--beam", "2")
    numbers = [int(n) for n in re.findall(r"^H-(\d+)\t", out, re.MULTILINE)]
    assert sorted(numbers) == list(range(214))


def test_lower_precisions_change_the_scores_a_little(run, corpus, model_dir, tmp_path):
    """--eval-bleu builds a generator together with the model, before its weights are loaded."""
    found = []
    for precision in ([], ["--int8"], ["--bf16"]):
        options = (*precision, "--eval-bleu", "--eval-bleu-args", '{"beam": 2, "max_len_b": 8}')
        out = generate(run, corpus, model_dir / "model.pt", tmp_path, *options)
        assert "BLEU4 = " in out
        found.append(dict(re.findall(r"^(H-\d+)\t(\S+)", out, re.MULTILINE)))
    exact, *others = found
    for rounded in others:
        assert len(exact) == 5 and exact.keys() == rounded.keys()
        differences = [float(rounded[line]) - float(score) for line, score in exact.items()]
        assert 0 < max(map(abs, differences)) < 0.3


def test_options_of_fairseq_generate(run, corpus, model, tmp_path):
    out = generate(
        *(run, corpus, f"{model}:{model}", tmp_path, "--gen-subset", "test", "--nbest", "3"),
        *("--prefix-size", "1", "--bf16", "--scoring", "paper_bleu", "--remove-bpe"),
        "--print-alignment",
    )
    targets = dict(re.findall(r"^T-(\d+)\t(\S+)", out, re.MULTILINE))
    found = re.findall(r"^H-(\d+)\t(\S+)\t(\S*)", out, re.MULTILINE)
    assert len(found) == len(re.findall(r"^A-\d+\t", out, re.MULTILINE)) == 3 * 5
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
