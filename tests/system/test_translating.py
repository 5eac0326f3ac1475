"""§6.1 Translating with fairseq-generate, from a directory other than the checkout."""

import re


def generate(succeed, corpus, path, tmp_path, *flags):
    """Return the output of fairseq-generate for the test set and models of the plugin."""
    log = succeed(
        *("fairseq-generate", corpus, "--user-dir", "aiayn_plugin", "--path", path, "--cpu"),
        *("--max-len-b", "8", "--batch-size", "100", *flags),
        cwd=tmp_path,
    )
    assert "can_reuse_epoch_itr" not in log.stdout + log.stderr, "debugging"
    return log.stdout


def test_lower_precisions_change_the_scores_a_little(succeed, corpus, model_dir, tmp_path):
    """--eval-bleu builds a generator together with the model, before its weights are loaded."""
    found = []
    for precision in ([], ["--int8"], ["--bf16"]):
        options = (*precision, "--eval-bleu", "--eval-bleu-args", '{"beam": 2, "max_len_b": 8}')
        out = generate(succeed, corpus, model_dir / "model.pt", tmp_path, *options)
        assert "BLEU4 = " in out
        found.append(dict(re.findall(r"^(H-\d+)\t(\S+)", out, re.MULTILINE)))
    exact, *others = found
    for rounded in others:
        assert len(exact) == 5 and exact.keys() == rounded.keys()
        differences = [float(rounded[line]) - float(score) for line, score in exact.items()]
        assert 0 < max(map(abs, differences)) < 0.3


def test_options_of_fairseq_generate(succeed, corpus, model_dir, tmp_path):
    [first], last = model_dir.glob("checkpoint_*_20.pt"), model_dir / "model.pt"
    out = generate(
        *(succeed, corpus, f"{first}:{last}", tmp_path, "--nbest", "3", "--prefix-size", "1"),
        *("--bf16", "--scoring", "paper_bleu", "--remove-bpe", "--print-alignment"),
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
        succeed, corpus, last, tmp_path, "--sampling", "--beam", "1", "--scoring", "paper_bleu"
    )
    assert len(re.findall(r"^H-(\d+)\t", sampled, re.MULTILINE)) == 5
    assert "SUBWORDS, not words: give --remove-bpe" in sampled
