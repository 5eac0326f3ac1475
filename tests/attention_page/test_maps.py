"""Attention maps and figures of your own sentences, with a barely trained model."""

import json
import re
import shutil
import sys

import pytest
import torch
from attention_pages import SOURCE, TARGET, random_maps

from aiayn_plugin.attention_page.figure import (
    attention_figure,
    find_rows,
    join_subwords,
)
from aiayn_plugin.attention_page.maps import (
    Sentence,
    Side,
    attention_maps,
    compute_maps,
    encode_lines,
    load_sentences,
    translate,
)
from aiayn_plugin.attention_page.page import check_size, group_words
from aiayn_plugin.checkpoints.bundle import bundle
from aiayn_plugin.cli import main
from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.user_models import load_task
from aiayn_plugin.inference.translator import Translator
from aiayn_plugin.model.attention_maps import compute_attention_weights

LINE = "Monday, May 1, 2023"


@pytest.fixture(scope="module")
def translator(model_dir) -> Translator:
    return Translator.load(model_dir, device="cpu")


def test_raw_lines_are_shown_with_their_translations(translator):
    first, second = attention_maps(translator, [LINE, "March ☃"])
    pipeline = translator.pipeline
    assert first.source == [*pipeline.encode(LINE).split(), "</s>"]
    assert pipeline.decode(" ".join(first.target[:-1])) == translator.translate([LINE])[0]
    assert first.decoder_input == ["</s>", *first.target[:-1]]
    m, n = len(first.source), len(first.target)
    h = translator.model.encoder.layers[0].self_attention.h
    assert first.encoder.shape == (1, h, m, m)
    assert first.decoder.shape == (1, h, n, n)
    assert first.encoder_decoder.shape == (1, h, n, m)
    for weights in (first.encoder, first.decoder, first.encoder_decoder):
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))
    assert second.unknown_source == [subword == "☃" for subword in second.source]
    assert len(second.unknown_target) == len(second.target)


def test_references_are_forced(translator):
    [sentence] = load_sentences(translator, "test", [3], True)
    maps = compute_maps(translator, sentence)
    assert maps.target == sentence.target.subwords
    task, model = load_task(translator.directory), translator.model
    source, target = (
        dictionary.encode_line(" ".join(subwords[:-1]), add_if_not_exist=False).long()
        for dictionary, subwords in (
            (task.source_dictionary, maps.source),
            (task.target_dictionary, maps.target),
        )
    )
    decoder_input = torch.cat((target[-1:], target[:-1]))
    weights = compute_attention_weights(model.encoder, model.decoder, source, decoder_input, [1])
    torch.testing.assert_close(maps.encoder_decoder, weights["encoder_decoder"])


def test_prepared_sentences_are_those_of_the_data(translator, corpus):
    raw = [(corpus / f"test.raw.{lang}").read_text().splitlines() for lang in ("en", "de")]
    encode = translator.pipeline.encode
    sentences = load_sentences(translator, "test", [3, 0], True)
    for sentence, number in zip(sentences, (3, 0), strict=True):
        assert sentence.source.subwords == [*encode(raw[0][number], "en").split(), "</s>"]
        assert sentence.target.subwords == [*encode(raw[1][number], "de").split(), "</s>"]
    [translated] = load_sentences(translator, "test", [3], False)
    [expected] = translate(translator, encode_lines(translator, [raw[0][3]]))
    assert translated.target.subwords == expected.target.subwords


def test_a_bundle_has_no_prepared_sentences(model_dir, tmp_path):
    bundle(model_dir, None, tmp_path / "bundle", torch.float32, None)
    with pytest.raises(InputError, match="no split 'test'"):
        load_sentences(Translator.load(tmp_path / "bundle", device="cpu"), "test", [0], True)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda t: attention_maps(t, [LINE, " "]), "line 2 is empty"),
        (
            lambda t: attention_maps(t, ["1 " * 2000]),
            "line 1 has 2,001 subwords with its end symbol; the model has 1,024",
        ),
        (
            lambda t: compute_maps(t, translate(t, encode_lines(t, [LINE]))[0], [2]),
            "no layer 2: its layers are 1 to 1",
        ),
        (lambda t: load_sentences(t, "test", [5], True), "no sentence 5: its sentences are 0 to 4"),
        (lambda t: load_sentences(t, "test", [-1], True), "no sentence -1"),
        (lambda t: load_sentences(t, "dev", [0], True), "no split 'dev'"),
    ],
)
def test_invalid_sentences_are_rejected(translator, call, message):
    with pytest.raises(InputError, match=message) as error:
        call(translator)
    assert "\n" not in str(error.value)


def test_subwords_are_joined_into_words(translator):
    pipeline = translator.pipeline
    assert group_words(["</s>", "he@@", "llo", "wor@@", "ld"], pipeline) == [
        ("</s>", 1),
        ("hello", 2),
        ("world", 2),
    ]
    assert group_words(["a", "cut@@", "</s>"], pipeline) == [("a", 1), ("cut", 1), ("</s>", 1)]
    assert group_words(["</s>"], pipeline) == [("</s>", 1)]
    weights = torch.tensor([[[0.2, 0.3, 0.5], [0.4, 0.4, 0.2], [0.2, 0.4, 0.4]]])
    expected = torch.tensor([[[0.2, 0.8], [0.3, 0.7]]])
    torch.testing.assert_close(join_subwords(weights, [1, 2], [1, 2]), expected)


def test_a_figure_draws_each_pair_with_its_weight_as_opacity(translator):
    """By default in the second to last layer."""
    maps = random_maps(SOURCE, TARGET, layers=3)

    def draw(**selection):
        [axes] = attention_figure(maps, translator.pipeline, heads=[2], **selection).axes
        lines = {}
        for line in axes.lines:
            if line.get_gid() != "legend":
                start, end = line.get_ydata()
                lines[round(float(start)), round(float(end))] = line.get_alpha()
        return lines, [text.get_text() for text in axes.texts]

    counts = [1, 2, 1, 3, 1], [1, 2, 1, 2, 1]
    joined = join_subwords(maps.encoder_decoder[1], *counts)
    words = "Das Tier war müde </s> The animal was tired </s>".split()
    for weights, labels, selection in (
        (maps.encoder[0], SOURCE * 2, {"layer": 1}),
        (joined, words, {"kind": "encoder_decoder", "join": True}),
    ):
        lines, texts = draw(**selection)
        assert lines == {
            (i, j): pytest.approx(float(weight))
            for i, row in enumerate(weights[1])
            for j, weight in enumerate(row)
            if weight >= 0.02
        }
        assert texts == [*labels, "2"]
    lines, _ = draw(word="</s>")
    assert {start for start, _ in lines} == {len(SOURCE) - 1}


def test_a_word_is_found_by_its_label_and_by_its_subwords():
    subwords = ["ma@@", "king", "ma@@", "ps"]
    words = [("making", 2), ("maps", 2)]
    assert find_rows("making", subwords, words) == [0, 1]
    assert find_rows("ma@@", subwords, words) == [0, 2]
    assert find_rows("maps", ["making", "maps"], words) == [1]
    with pytest.raises(InputError, match="--word map is not one of the words on the left: making "):
        find_rows("map", subwords, words)


@pytest.mark.parametrize(
    "selection, message",
    [
        ({"layer": 7}, "--layer 7 is not one of the layers 1"),
        ({"heads": [1, 9]}, "--heads 9 is not one of the heads 1 2 3 4"),
        ({"word": "absent"}, "--word absent is not one of the words"),
    ],
)
def test_a_figure_of_an_unknown_layer_head_or_word_is_rejected(translator, selection, message):
    [maps] = attention_maps(translator, [LINE])
    with pytest.raises(InputError, match=message):
        attention_figure(maps, translator.pipeline, **selection)


def test_the_command_writes_a_page_or_a_figure(model_dir, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines").write_text(f"{LINE}\nMarch 3\n")
    main(["attention", str(model_dir), "--input", "lines", "--output", "page.html"])
    page = (tmp_path / "page.html").read_text()
    assert '"source":[["Monday",' in page
    assert "://" not in page.replace("http://www.w3.org/2000/svg", "")  # it loads nothing
    assert capsys.readouterr().out.startswith("page.html: 2 sentences, ")
    selection = ["--kind", "decoder", "--layer", "1", "--heads", "3", "--word", "</s>", "--join"]
    main(["attention", str(model_dir), "--input", "lines", "--figure", "f.svg", *selection])
    figure = (tmp_path / "f.svg").read_text()
    assert ">decoder self-attention, layer 1, head<" in figure and ">3<" in figure
    assert "@@" not in figure


def test_the_page_is_in_the_run_directory_unless_another_is_given(
    translator, model_dir, tmp_path, capsys
):
    shutil.copytree(model_dir, tmp_path / "run")
    selection = ["--split", "test", "--numbers", "3", "0", "--reference"]
    main(["attention", str(tmp_path / "run"), *selection])
    assert capsys.readouterr().out.startswith(f"{tmp_path}/run/attention.html: 2 sentences")
    html = (tmp_path / "run" / "attention.html").read_text()
    data = json.loads(re.search(r'id="data">(.*)</script>', html)[1])
    shown = [sentence["subwords"]["target"] for sentence in data["sentences"]]
    references = load_sentences(translator, "test", [3, 0], True)
    assert shown == [sentence.target.subwords for sentence in references]
    assert data["about"].endswith(", with the references")


@pytest.mark.parametrize(
    "words, message",
    [
        (["MODEL", "--figure", "x.svg", "--layers", "1"], "--layers are for a page"),
        (["MODEL", "--word", "x"], "--word needs --figure"),
        (
            ["MODEL", "--figure", "x.svg", "--split", "test", "--numbers", "1", "2"],
            "--figure shows one sentence",
        ),
        (["MODEL", "--figure", "x.svg", "--output", "x.html"], "--output .* for a page"),
        (["MODEL", "--output", "."], "is a directory"),
        (["MODEL", "--figure", "x.gif"], r"\.svg, \.pdf or \.png"),
        (["MODEL", "--reference"], "need --split"),
        (["MODEL", "--split", "test", "--input", "x"], "mutually exclusive"),
        (["MODEL", "--split", "test", "--layers", "2"], "no layer 2: its layers are 1 to 1"),
        (["MODEL", "--input", "empty"], "no sentence to show"),
        (["MODEL", "--input", "long"], "line 1 has 301 subwords .* shows at most 256"),
        (["MODEL", "--input", "many"], "too many sentences: a page shows at most 200"),
        (["MODEL", "--input", "absent"], "absent does not exist"),
    ],
)
def test_invalid_options_and_input_end_in_one_line(
    model_dir, tmp_path, monkeypatch, error, words, message
):
    (tmp_path / "empty").touch()
    (tmp_path / "long").write_text("1 " * 300)
    (tmp_path / "many").write_text("1\n" * 201)
    monkeypatch.chdir(tmp_path)
    shown = error("attention", *(model_dir if word == "MODEL" else word for word in words))
    assert re.search(message, shown)
    assert not (model_dir / "attention.html").exists()


def test_a_page_above_the_limit_is_rejected():
    """base, and the longest sentences: 4/3 · 6 · 8 · 3 · 256² bytes each."""
    side = Side(torch.empty(256), ["x"] * 256)
    sentence = Sentence(side, side)
    check_size([sentence] * 7, layers=6, heads=8)
    with pytest.raises(InputError, match="8 sentences would make a page of 101 MB"):
        check_size([sentence] * 8, layers=6, heads=8)


def test_without_matplotlib_a_figure_is_rejected_in_one_line(model_dir, monkeypatch, error):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # importing it fails
    message = error("attention", model_dir, "--split", "test", "--figure", "x.svg")
    assert message == "figures need matplotlib: pip install matplotlib"
