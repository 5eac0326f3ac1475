"""Attention of sentences of one's own, with a hardly trained model."""

import pytest
import torch
from commands import last_line

from aiayn_plugin.attention_page.figure import Choice, attention_figure, joined, rows_of
from aiayn_plugin.attention_page.maps import attended, attention, prepared, sentences
from aiayn_plugin.attention_page.page import words
from aiayn_plugin.cli import main
from aiayn_plugin.errors import InputError
from aiayn_plugin.inference.translator import Translator
from aiayn_plugin.model.attention_maps import attention_weights

LINE = "Monday, May 1, 2023"


@pytest.fixture(scope="module")
def translator(model_dir) -> Translator:
    return Translator.load(model_dir, device="cpu")


def test_raw_lines_are_shown_with_their_translations(translator):
    first, second = attention(translator, [LINE, "March ☃"])
    settings = translator.pipeline
    assert first.source == [*settings.encode(LINE).split(), "</s>"]
    assert settings.decode(" ".join(first.written[:-1])) == translator.translate([LINE])[0]
    assert first.read == ["</s>", *first.written[:-1]]
    m, n, h = (
        len(first.source),
        len(first.written),
        translator.model.encoder.layers[0].self_attention.h,
    )
    assert first.encoder.shape == (1, h, m, m)
    assert first.decoder.shape == (1, h, n, n)
    assert first.encoder_decoder.shape == (1, h, n, m)
    for weights in (first.encoder, first.decoder, first.encoder_decoder):
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))
    assert [
        piece
        for piece, unknown in zip(second.source, second.unknown_source, strict=True)
        if unknown
    ] == ["☃"]
    assert len(second.unknown_written) == len(second.written)


def test_references_are_forced(translator):
    [found] = attention(translator, [LINE], ["Montag, 1. Mai 2023"])
    expected = translator.pipeline.encode("Montag, 1. Mai 2023", "de").split()
    assert found.written == [*expected, "</s>"]
    task, model = translator.task, translator.model
    source, target = (
        dictionary.encode_line(" ".join(pieces[:-1]), add_if_not_exist=False).long()
        for dictionary, pieces in (
            (task.source_dictionary, found.source),
            (task.target_dictionary, found.written),
        )
    )
    read = torch.cat((target[-1:], target[:-1]))
    weights = attention_weights(model.encoder, model.decoder, source, read, [1])
    torch.testing.assert_close(found.encoder_decoder, weights["encoder_decoder"])


def test_prepared_sentences_are_fairseqs(translator, corpus):
    raw = [(corpus / f"test.raw.{lang}").read_text().splitlines() for lang in ("en", "de")]
    found = prepared(translator, "test", [3, 0], reference=True)
    for sentence, number in zip(found, (3, 0), strict=True):
        for pieces, lines, lang in (
            (sentence.source_pieces, raw[0], "en"),
            (sentence.target_pieces, raw[1], "de"),
        ):
            assert pieces == [*translator.pipeline.encode(lines[number], lang).split(), "</s>"]
    ours = prepared(translator, "test", [3], reference=False)
    assert ours[0].target_pieces == sentences(translator, [raw[0][3]])[0].target_pieces


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda t: attention(t, [LINE, " "]), "line 2 has no word"),
        (
            lambda t: attention(t, ["1 " * 2000]),
            "line 1 has 2,001 pieces with its end, and the model has 1,024",
        ),
        (lambda t: attention(t, [LINE], []), "1 lines, but 0 references"),
        (lambda t: attention(t, [LINE], layers=[2]), "no layer 2: its layers are 1 to 1"),
        (
            lambda t: prepared(t, "test", [5], True),
            "test has no sentence 5: its sentences are 0 to 4",
        ),
        (lambda t: prepared(t, "test", [-1], True), "no sentence -1"),
        (lambda t: prepared(t, "dev", [0], True), "no split 'dev'"),
    ],
)
def test_what_cannot_be_shown_is_refused(translator, call, message):
    with pytest.raises(InputError, match=message) as error:
        call(translator)
    assert "\n" not in str(error.value)


def test_pieces_are_joined_into_words(translator):
    assert words(["</s>", "he@@", "llo", "wor@@", "ld"], translator.pipeline) == [
        ("</s>", 1),
        ("hello", 2),
        ("world", 2),
    ]
    assert words(["a", "cut@@", "</s>"], translator.pipeline) == [("a", 1), ("cut", 1), ("</s>", 1)]
    assert words(["</s>"], translator.pipeline) == [("</s>", 1)]
    weights = torch.tensor([[[0.2, 0.3, 0.5], [0.4, 0.4, 0.2], [0.2, 0.4, 0.4]]])
    torch.testing.assert_close(
        joined(weights, [1, 2], [1, 2]), torch.tensor([[[0.2, 0.8], [0.3, 0.7]]])
    )


def test_a_figure_draws_each_pair_as_opaque_as_its_weight(translator):
    [found] = attention(translator, [LINE])
    figure = attention_figure(found, translator.pipeline, Choice(heads=[2], layer=1))
    [axes] = figure.axes
    drawn = {
        (round(float(y[0])), round(float(y[1]))): line.get_alpha()
        for line in axes.lines
        if line.get_gid() != "head"
        for y in [line.get_ydata()]
    }
    weights = found.encoder[0, 1]
    assert drawn == {
        (i, j): pytest.approx(float(weights[i, j]))
        for i in range(len(weights))
        for j in range(len(weights))
        if weights[i, j] >= 0.02
    }
    texts = [text.get_text() for text in axes.texts]
    assert texts == [*found.source, *found.source, "2"]
    alone = attention_figure(found, translator.pipeline, Choice(word="</s>", heads=[2]))
    assert {
        round(float(line.get_ydata()[0]))
        for line in alone.axes[0].lines
        if line.get_gid() != "head"
    } == {len(found.source) - 1}


def test_a_word_is_found_as_a_piece_and_as_what_pieces_make_up():
    pieces = ["ma@@", "king", "ma@@", "ps"]
    as_words = [("making", 2), ("maps", 2)]
    assert rows_of("making", pieces, as_words) == [0, 1]
    assert rows_of("ma@@", pieces, as_words) == [0, 2]
    assert rows_of("maps", ["making", "maps"], as_words) == [1]
    with pytest.raises(InputError, match="--word map is none of the words on the left: making "):
        rows_of("map", pieces, as_words)


@pytest.mark.parametrize(
    "choice, message",
    [
        (Choice(layer=7), "--layer 7 is none of the layers 1"),
        (Choice(heads=[1, 9]), "--heads 9 is none of the heads 1 2 3 4"),
        (Choice(word="absent"), "--word absent is none of the words"),
    ],
)
def test_a_figure_of_what_is_not_there_is_refused(translator, choice, message):
    [found] = attention(translator, [LINE])
    with pytest.raises(InputError, match=message):
        attention_figure(found, translator.pipeline, choice)


@pytest.mark.parametrize("kind", ["svg", "pdf", "png"])
def test_the_command_writes_a_page_and_a_figure(run, model_dir, tmp_path, kind):
    (tmp_path / "lines").write_text(f"{LINE}\nMarch 3 注\n")
    log = run(
        "aiayn",
        "attention",
        model_dir,
        "--input",
        "lines",
        "--figure",
        f"f.{kind}",
        "--output",
        "page.html",
        "--sentence",
        "2",
        cwd=tmp_path,
    )
    assert log.returncode == 0, log.stderr
    said = log.stderr.splitlines()
    assert said == [] if kind == "svg" else len(said) == 1 and "no font here has 注" in said[0]
    page = (tmp_path / "page.html").read_text()
    assert '"text":"Monday , May 1 , 2023"' in page
    assert "://" not in page.replace("http://www.w3.org/2000/svg", "")  # nothing to fetch
    assert (tmp_path / f"f.{kind}").read_bytes()[:5] in (b"<?xml", b"%PDF-", b"\x89PNG\r")
    assert log.stdout.splitlines()[1].startswith("page.html: 2 sentences, ")


@pytest.mark.parametrize(
    "words, message",
    [
        (["A:B"], "ensemble cannot be shown together: give one MODEL_DIR"),
        (["MODEL", "--word", "x"], "--word goes with --figure"),
        (["MODEL", "--join"], "--join goes with --figure"),
        (["MODEL", "--figure", "x.svg", "--output", "x.svg"], "are one file"),
        (["MODEL", "--output", "."], "is a directory"),
        (["MODEL", "--figure", "x.gif"], "a figure is a file .svg, .pdf or .png"),
        (["MODEL", "--reference"], "go with --split"),
        (["MODEL", "--split", "test", "--input", "x"], "give one"),
        (["MODEL", "--input", "EMPTY"], "no sentence to show"),
        (
            ["MODEL", "--input", "LONG"],
            "line 1 has 301 pieces with its end, and a page shows at most 256",
        ),
        (
            ["MODEL", "--split", "test", "--sentence", "2", "--figure", "x.svg"],
            "--sentence 2: there are 1",
        ),
        (["MODEL", "--input", "MANY"], "201 sentences, and a page shows at most 200"),
        (["MODEL", "--input", "absent"], "absent does not exist"),
    ],
)
def test_bad_input_ends_in_one_line(model_dir, tmp_path, monkeypatch, words, message):
    (tmp_path / "empty").touch()
    (tmp_path / "long").write_text("1 " * 300)
    (tmp_path / "many").write_text("1\n" * 201)
    named = {
        "MODEL": model_dir,
        "MANY": tmp_path / "many",
        "EMPTY": tmp_path / "empty",
        "LONG": tmp_path / "long",
    }
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=message) as error:
        main(["attention", *(str(named.get(word, word)) for word in words)])
    assert "\n" not in str(error.value)
    assert not (tmp_path / "attention.html").exists()


def test_without_matplotlib_a_figure_is_refused_in_one_line(run, model_dir, tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError")
    log = run(
        "aiayn",
        "attention",
        model_dir,
        "--split",
        "test",
        "--figure",
        "x.svg",
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert "figures need matplotlib: pip install matplotlib" in last_line(log)


def test_the_model_is_left_as_it_was(translator):
    before = translator.translate([LINE])
    attended(translator, prepared(translator, "test", [0], True)[0])
    assert translator.translate([LINE]) == before
    assert not any(module._forward_hooks for module in translator.model.modules())
