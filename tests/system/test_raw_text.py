"""Raw text in, raw text out: aiayn translate and export, and the same from Python."""

import pytest
from commands import LINES
from models import copy_changed, use_sinusoids

from aiayn_plugin.inference import Translator
from aiayn_plugin.paper import SearchSettings
from aiayn_plugin.search import BeamSearch
from aiayn_plugin.search.decoder_step import AiaynSearchModel


@pytest.fixture
def translate(succeed, tmp_path):
    """`translate(model, text, …)` runs aiayn translate on text or bytes."""

    def command(model, text, *flags):
        command = ("aiayn", "translate", model, "--device", "cpu", *flags)
        return succeed(*command, input=text, cwd=tmp_path)

    return command


def test_order_and_number_of_lines_are_kept(translate, model_dir):
    text = "\n".join(LINES)
    log = translate(model_dir, text)
    out = log.stdout.split("\n")
    assert len(out) == len(LINES) + 1 and out[-1] == ""
    assert out[:-1] == Translator.load(model_dir, device="cpu").translate(LINES)
    assert out[1] == "" and out[0] == out[4]
    assert "@@" not in log.stdout
    at_once = translate(model_dir, text, "--line-by-line")
    assert at_once.stdout == log.stdout
    best = translate(model_dir, text, "--nbest", "2", "--beam", "3")
    numbers = [line.split(" ||| ")[0] for line in best.stdout.splitlines()]
    assert numbers == ["1", "1", "2", "3", "3", "4", "4", "5", "5"]
    scores = [float(line.split(" ||| ")[2]) for line in best.stdout.splitlines()]
    assert scores[0] >= scores[1]


@pytest.mark.parametrize("positions", ["learned", "sinusoids"])
def test_ctranslate2_finds_the_same(succeed, model_dir, tmp_path, positions):
    ctranslate2 = pytest.importorskip("ctranslate2")
    if positions == "sinusoids":
        model_dir = copy_changed(model_dir, tmp_path, use_sinusoids)
    log = succeed("aiayn", "export", model_dir, "--output", tmp_path / "ct2")
    assert f"with {'1,024' if positions == 'learned' else '2,048'} positions" in log.stdout
    translator = Translator.load(model_dir, device="cpu")
    subwords = [translator.pipeline.encode(line).split() for line in LINES if line]
    results = ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu").translate_batch(
        subwords, beam_size=4, length_penalty=0.6, max_decoding_length=60, return_scores=True
    )
    search = BeamSearch(
        SearchSettings(length_penalty="fairseq", max_len_a=0, max_len_b=59),
        [AiaynSearchModel(translator.model.encoder, translator.model.decoder)],
    )
    for line, result in zip(subwords, results, strict=True):
        [[best]] = search.search([translator.token_ids(line)])
        assert translator.target.decode(best.tokens.tolist()) == result.hypotheses[0]
