"""§6.1 CTranslate2's search with the model in the package, compared with the plugin's."""

import pytest

from aiayn_plugin.checkpoints.bundle import DEMO
from aiayn_plugin.errors import InputError
from aiayn_plugin.inference import Translator

pytest.importorskip("ctranslate2")
LINES = [*(DEMO / "examples.txt").read_text(encoding="utf-8").splitlines(), "", "May 1", "5 km"]


def load(engine="ctranslate2", **options):
    return Translator.load(DEMO, device="cpu", engine=engine, **options)


@pytest.mark.parametrize(
    "settings", [{}, {"lenpen": 2.0, "beam": 8}, {"length_penalty": "fairseq"}]
)
def test_it_finds_the_plugins_hypotheses(settings):
    expected = load("torch", **settings).translate_nbest(LINES)
    found = load(**settings).translate_nbest(LINES)
    for [best], [ours] in zip(found, expected, strict=True):
        assert best.text == ours.text
        assert best.score == pytest.approx(ours.score, abs=1e-3)


def test_a_search_ends_at_beam_hypotheses_as_fairseqs_does():
    """With a length penalty of 0 CTranslate2 would go on, for example for these lines."""
    settings = {"nbest": 4, "length_penalty": "fairseq", "lenpen": 0.0}
    lines = [
        "A half naked man is sleeping on his chair outdoors.",
        "A red plane flying over a boat as it trails pink smoke.",
        "A mother and two children are posing with funny faces.",
    ]
    engines = [load(engine, **settings) for engine in ("torch", "ctranslate2")]
    for line in lines:
        [expected], [found] = (engine.translate_nbest([line]) for engine in engines)
        assert [best.text for best in found] == [best.text for best in expected]


def test_int8_scores_are_nearly_as_good():
    exact, rounded = (load(precision=name).translate_nbest(LINES) for name in ("float32", "int8"))
    differences = [few[0].score - best[0].score for few, best in zip(rounded, exact, strict=True)]
    assert any(differences) and max(map(abs, differences)) < 0.5


def test_nbest_is_sorted_and_the_limit_is_that_of_the_settings():
    reported = []
    translator = load(nbest=3, max_len_a=0, max_len_b=5, min_len=5, max_tokens=60)
    subwords = [translator.pipeline.encode(line).split() for line in LINES if line]
    sentences = list(map(translator.token_ids, subwords))
    for hypotheses in translator.search(sentences, reported.append):
        scores = [float(hypothesis.score) for hypothesis in hypotheses]
        assert len(scores) == 3 and scores == sorted(scores, reverse=True)
        assert [len(hypothesis.tokens) for hypothesis in hypotheses] == [6] * 3
        assert all(hypothesis.tokens[-1] == 2 for hypothesis in hypotheses)
    assert len(reported) > 1 and sum(reported) == len(sentences)


def test_a_long_line_is_read_to_its_end():
    """CTranslate2 by itself would read 1,024 tokens; the last line exceeds its 2,048 positions."""
    translator = load(beam=1, max_len_a=0, max_len_b=1)
    lines = ["May 1 " * repetitions for repetitions in (550, 600, 1500)]
    sizes = [len(translator.pipeline.encode(line).split()) for line in lines]
    assert min(sizes) > 1024 and sizes[2] > 2048
    [[shorter], [longer], [segments]] = translator.translate_nbest(lines)
    assert shorter.score != longer.score and segments.text


@pytest.mark.parametrize(
    "options, message",
    [
        ({"engine": "tensorrt"}, "engine 'tensorrt' is not one of torch, ctranslate2"),
        ({"device": "cuda"}, "--engine ctranslate2 uses the CPU"),
        ({"user_dir": "aiayn_plugin"}, "leave out --device and --user-dir"),
        ({"temperature": 0.5}, "does not support temperature"),
        ({"trees_only": True}, "needs a model trained on trees"),
        ({"beam": 0}, "--beam 0"),
        ({"min_len": 9, "max_len_a": 0, "max_len_b": 5}, "limit of 5 tokens is below 9"),
    ],
)
def test_unsupported_options_are_reported_in_one_line(options, message):
    with pytest.raises(InputError, match=message) as error:
        Translator.load(DEMO, **{"engine": "ctranslate2", **options}).translate(["Sunday"])
    assert "\n" not in str(error.value)
