"""§6.1: from the log of fairseq-generate to scores."""

import json
import math
import re
import shutil
import sys

import pytest
import sacrebleu

from aiayn_plugin.cli import main
from aiayn_plugin.errors import InputError
from aiayn_plugin.text.generate_log import read_hypotheses, read_translations
from aiayn_plugin.text.lines import read_lines
from aiayn_plugin.text.pipeline import TextPipeline
from aiayn_plugin.text.scores import PaperTokens, describe_paper_bleu, paper_bleu, resample, score

LOG = """2026-01-01 | INFO | fairseq_cli.generate | loading
S-1\tsource
T-1\tH-7\tno hypothesis
H-1\t-0.2\tbest of 1
D-1\t-0.2\tbest of 1
H-1\t-0.3\tsecond of 1
H-0\t-0.5\ta b@@ c
H-2\t-9.9\t
Generate test with beam=4: BLEU4 = 1
"""


def test_the_best_hypotheses_in_order():
    assert read_hypotheses(LOG.splitlines()) == ["a b@@ c", "best of 1", ""]


def test_a_lost_sentence_is_noticed():
    with pytest.raises(InputError, match="no hypothesis for sentence 1"):
        read_hypotheses(line for line in LOG.splitlines() if not line.startswith("H-1"))
    with pytest.raises(InputError, match=r"sentence \d \(H-\d\) twice: give the output of one run"):
        read_hypotheses([*LOG.splitlines(), *LOG.splitlines()])
    for number in ("9" * 18, "9" * 5000):  # neither a list of 10¹⁸ numbers nor an error of int
        with pytest.raises(InputError, match="no hypothesis"):
            read_hypotheses([f"H-{number}\t-1\ta"])


def test_scores():
    system = ["Der Hund läuft schnell weg.", "Ja."]
    references = ["Der Hund läuft sehr schnell weg.", "Ja."]
    found = score(system, references, "de")
    assert found.bleu == pytest.approx(sacrebleu.corpus_bleu(system, [references]).score)
    assert found.chrf == pytest.approx(sacrebleu.corpus_chrf(system, [references]).score)
    assert (found.exact, found.sentences) == (0.5, 2)
    assert score(["Ja , nein"], [" Ja\u00a0,  nein "], "de").exact == 1
    assert "tok:13a" in found.signature and "case:mixed" in found.signature
    with pytest.raises(InputError, match="1 hypotheses, but 2 references"):
        score(system[:1], references, "de")
    with pytest.raises(InputError, match="nothing"):
        score([], [], "de")


def test_sacrebleu_splits_languages_without_spaces():
    """With 13a a sentence without spaces is one word, so that a single difference gives 0."""
    system = ["我们明天去北京的图书馆看书。", "今天天气很好。"]
    references = ["我们明天去上海的图书馆看书。", "今天天气很好。"]
    found = score(system, references, "zh_CN")
    expected = sacrebleu.corpus_bleu(system, [references], tokenize="zh").score
    assert found.bleu == pytest.approx(expected) and expected > 50
    assert "tok:zh" in found.signature
    result = resample([system], references, "zh_CN", samples=10)["sacreBLEU"][0]
    assert result.bleu == pytest.approx(expected)


def test_a_missing_sacrebleu_dependency_is_an_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "MeCab", None)
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
    with pytest.raises(InputError, match=r"pip install 'sacrebleu\[ja\]'"):
        score(["a"], ["b"], "ja")


@pytest.mark.parametrize(
    "lang, raw, tokens",
    [
        # as in Moses, “ and ” become ", and „ « » are kept
        ("de", "Er sagte: „Ja“ und «nein».", 'Er sagte : „ Ja " und « nein » .'),
        ("de", "Das ist ”gut”…", 'Das ist " gut " ...'),
        (
            "de",
            "Der E-Mail-Dienst - ein Nord-Süd-Thema",
            "Der E ##AT##-##AT## Mail ##AT##-##AT## Dienst - ein Nord ##AT##-##AT## Süd "
            "##AT##-##AT## Thema",
        ),
        ("de", "A-B-C", "A ##AT##-##AT## B-C"),  # perl's matches do not overlap
        ("fr", "un rendez-vous - oui", "un rendez-vous - oui"),
        (
            "de",
            "1.234,5 Meter, 20-30 %, -5 Grad",
            "1.234,5 Meter , 20 ##AT##-##AT## 30 % , -5 Grad",
        ),
        ("fr", "L’été, c’est «bien»!", "L' été , c' est « bien » !"),
        ("de", "a & b <c>", "a & b < c >"),
        ("de", "", ""),
    ],
)
def test_the_words_that_the_papers_bleu_compares(lang, raw, tokens):
    assert PaperTokens(lang)(raw) == tokens


def test_paper_bleu_counted_by_hand():
    # 8 words each, the third differs
    value = paper_bleu(
        ["Der Hund läuft sehr schnell weg heute ."],
        ["Der Hund rennt sehr schnell weg heute ."],
        "de",
    )
    assert value == pytest.approx(100 * (7 / 8 * 5 / 7 * 3 / 6 * 2 / 5) ** 0.25)
    assert paper_bleu(["der Hund läuft weg ."], ["Der Hund läuft weg ."], "de") < 100  # cased
    # the compound is five words, so 8 against 9
    system, references = ["Die Nord-Süd-Achse ist ."], ["Die Nord-Süd-Achse ist da ."]
    expected = 100 * math.exp(1 - 9 / 8) * (8 / 8 * 6 / 7 * 5 / 6 * 4 / 5) ** 0.25
    assert paper_bleu(system, references, "de") == pytest.approx(expected)
    found = score(system, references, "de_AT")
    first, second, third, _ = found.lines()
    assert first.startswith(f"paper BLEU   {expected:.2f} ") and "compounds split" in first
    assert second.startswith(f"sacreBLEU    {found.bleu:.2f} ") and found.bleu < expected - 1
    assert third.startswith(f"chrF         {found.chrf:.2f} ")
    line = describe_paper_bleu(system, references, "de")
    assert line.startswith(f"paper BLEU = {expected:.2f} (de;")
    assert f"sacreBLEU against the same {found.bleu:.2f} (" in line


def test_bootstrap_intervals_and_p():
    """One system differs from the reference in a few sentences, another in most."""
    references = [f"Der Hund Nummer {n} läuft heute sehr schnell weg ." for n in range(60)]
    good = [
        line.replace("läuft", "rennt") if n % 20 == 0 else line for n, line in enumerate(references)
    ]
    poor = [line.replace("läuft", "rennt") if n % 3 else line for n, line in enumerate(references)]
    found = resample([good, list(good), poor], references, "de")
    for name, metric in (
        ("paper BLEU", lambda s: paper_bleu(s, references, "de")),
        ("sacreBLEU", lambda s: score(s, references, "de").bleu),
    ):
        first, same, other = found[name]
        assert first.bleu == same.bleu == pytest.approx(metric(good)) and first.p is None
        assert same.p == 1, "equal scores are no difference"
        assert other.p < 0.01 and other.bleu == pytest.approx(metric(poor))
        for result in (first, other):
            assert abs(result.mean - result.bleu) < result.half_width < 10
    assert found == resample([good, list(good), poor], references, "de"), "the seed is fixed"


def test_paper_bleu_without_a_common_4_gram_is_0():
    system, references = ["a b c x"], ["a b c d"]
    assert paper_bleu(system, references, "de") == 0
    assert resample([system], references, "de", samples=2)["paper BLEU"][0].bleu == 0


@pytest.fixture
def files(tmp_path):
    """Two hypotheses and their references, of which one is the same, as arguments."""
    system, reference = tmp_path / "system", tmp_path / "reference"
    system.write_text("Der Hund läuft schnell weg.\nJa.\n", encoding="utf-8")
    reference.write_text("Der Hund läuft sehr schnell weg.\nJa.\n", encoding="utf-8")
    return [str(system), "--reference", str(reference), "--target-lang", "de"]


def test_the_number_of_examples_is_checked(files, error):
    assert "--examples must be at least 0" in error("score", *files, "--examples", "-1")


def test_hypotheses_and_scores_go_to_different_files(files, error):
    same = ("--output", "scores", "--json", "scores")
    assert "--output and --json are the same file, scores" in error("score", *files, *same)


def test_the_reverse_direction_needs_its_target_language(corpus, tmp_path, capsys, error):
    """One log has the references as targets, with an unknown word; the other has the sources."""
    pipeline = TextPipeline.load(corpus)
    log = tmp_path / "log"
    for lang in ("de", "en"):
        lines = []
        for number, raw in enumerate(read_lines(corpus / f"valid.raw.{lang}")):
            target = pipeline.encode(raw, lang)
            if number == 7:
                target = "<<unk>> " + target
            lines += [f"T-{number}\t{target}\n", f"H-{number}\t-1\t{target}\n"]
        log.write_text("".join(lines), encoding="utf-8")
        command = ["score", str(log), "--data", str(corpus), "--split", "valid"]
        if lang == "de":
            main(command)
            assert "(214 sentences)" in capsys.readouterr().out
        else:
            message = "the references in .* are not those of .*: T-0 is "
            assert re.match(message, error(*command))
            main([*command, "--target-lang", "en", "--examples", "1"])
            shown = capsys.readouterr().out
            assert "(214 sentences)" in shown
            assert f"source      {next(read_lines(corpus / 'valid.raw.de'))}\n" in shown
            message = error(*command, "--target-lang", "fr")
            assert re.match("--target-lang fr: .* holds en and de", message)


def test_scores_are_written_as_json(files, tmp_path, capsys):
    main(["score", *files])
    printed = capsys.readouterr().out
    main(["score", *files, "--json", str(tmp_path / "scores.json")])
    assert capsys.readouterr().out == printed
    found = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    scores = score(found["system"], found["references"], "de")
    assert {name: found[name] for name in vars(scores)} == vars(scores)
    assert (found["kind"], found["split"], found["exact"], found["sentences"]) == (
        *("translations", None),  # the split of raw text is unknown
        *(0.5, 2),
    )
    expected = resample([found["system"]], found["references"], "de")
    assert found["bootstrap"] == {name: result[0]._asdict() for name, result in expected.items()}
    assert found["system"] == ["Der Hund läuft schnell weg.", "Ja."] and found["sources"] == []


def test_scores_are_printed_before_they_are_resampled(files, tmp_path, capsys, monkeypatch):
    """Ctrl-C during the bootstrap, which takes minutes for a large set, loses only the JSON."""
    main(["score", *files])
    printed = capsys.readouterr().out

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("aiayn_plugin.cli.score.resample", interrupt)
    json_file, output = tmp_path / "scores.json", tmp_path / "output"
    with pytest.raises(SystemExit, match="130"):
        main(["score", *files, "--json", str(json_file), "--output", str(output)])
    assert capsys.readouterr() == (printed, "aiayn: score was interrupted\n")
    assert output.read_text(encoding="utf-8") == "Der Hund läuft schnell weg.\nJa.\n"
    assert not json_file.exists()


def test_scores_of_trees_are_printed_and_written_as_json(tmp_path, capsys):
    """Of the brackets S, NP and VP, two are right; the system has X and Y instead of VP. So 2 of 4
    and 2 of 3 are right and, with those of a sentence of 41 words, 3 of 5 and 3 of 4."""
    gold, system, long = tmp_path / "gold", tmp_path / "system", f"(S {' '.join(['(NN a)'] * 41)})"
    gold.write_text(f"(S (NP (NNS dogs)) (VP (VBP bark) (RB now)))\n{long}\n")
    system.write_text(f"(S (NP (NNS dogs)) (X (Y (VBP bark) (RB now))))\n{long}\n")
    path = tmp_path / "scores.json"
    main(["score", str(system), "--trees", str(gold), "--json", str(path)])
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["kind"] == "trees" and found["all"]["tags"] == 44
    for name, expected in (("all", (3 / 5, 3 / 4, 6 / 9)), ("short", (2 / 4, 2 / 3, 4 / 7))):
        scores = [found[name][score] for score in ("precision", "recall", "f1")]
        assert scores == pytest.approx(expected)
    printed = capsys.readouterr().out
    for line in (
        "F1           66.67 ",
        "precision    60.00   recall 75.00",
        "F1 short     57.14   of the 1 scored sentences of up to 40 words",
        "tags         100.0%   of 44 words",
    ):
        assert f"\n{line}" in f"\n{printed}"
    assert found["sources"][0] == "dogs bark now" and found["repaired"] == 0
    assert found["references"][0] == "(S (NP (NNS dogs)) (VP (VBP bark) (RB now)))"


def test_at_signs_in_references_are_not_taken_for_subwords(corpus, tmp_path):
    data = shutil.copytree(corpus, tmp_path / "data")
    path = data / "valid.raw.de"
    path.write_bytes(b"@@" + path.read_bytes()[2:])  # the same size as before
    pipeline = TextPipeline.load(data)
    targets = [pipeline.encode(raw, "de").replace("@@ ", "") for raw in read_lines(path)]
    log = tmp_path / "log"
    lines = (f"T-{i}\t{target}\nH-{i}\t-1\t{target}\n" for i, target in enumerate(targets))
    log.write_text("".join(lines), encoding="utf-8")
    assert len(read_translations(log, data, "valid").system) == 214
