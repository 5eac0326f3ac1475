"""Raw text to subwords and back, with the settings of a data directory."""

from dataclasses import replace

import pytest

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.pipeline import TextPipeline
from aiayn_plugin.text.settings import TextSettings


def test_pipeline_goes_from_raw_text_to_subwords_and_back(data_dir):
    pipeline = TextPipeline.load(data_dir)
    assert pipeline.encode("hello,\u2028hel!") == "he@@ l@@ lo , hel !"
    assert pipeline.encode("it's", "en").endswith("'@@ s")
    assert pipeline.encode("it's", "de").endswith("' s")
    assert pipeline.decode("he@@ l@@ lo , hel !") == "hello, hel!"
    with pytest.raises(InputError, match="'fr'.* en and de"):
        pipeline.encode("hello", "fr")


@pytest.mark.parametrize(
    ("kind", "subwords"), [("moses", "1@@ 5 : 0@@ 5"), ("sacremoses", "1@@ 5@@ :@@ 0@@ 5")]
)
def test_text_settings_say_which_tokens_a_directory_has(data_dir, kind, subwords):
    path = data_dir / "text.json"
    settings = TextSettings.load(path)
    assert settings.tokenizer == "moses"  # of new directories
    replace(settings, tokenizer=kind).save(path)
    assert TextPipeline.load(data_dir).encode("15:05") == subwords


def test_a_word_of_a_hundred_thousand_letters_comes_back(data_dir):
    pipeline = TextPipeline.load(data_dir)
    word = "hello" * 20_000
    line = pipeline.encode(f"{word} hello")
    assert line.startswith("he@@ l@@ l@@ ") and line.endswith("he@@ l@@ lo")
    assert pipeline.decode(line) == f"{word} hello"


def test_no_other_tokeniser(data_dir):
    settings = TextSettings.load(data_dir / "text.json")
    replace(settings, tokenizer="perl").save(data_dir / "text.json")
    with pytest.raises(InputError, match="cannot handle perl with bpe"):
        TextPipeline.load(data_dir)


def test_pipeline_refuses_other_codes_and_unknown_models(data_dir):
    (data_dir / "codes.bpe").write_text((data_dir / "codes.bpe").read_text() + "a b\n")
    with pytest.raises(InputError, match="not the codes"):
        TextPipeline.load(data_dir)
    TextSettings("en", "de", 3, subword="syllable").save(data_dir / "text.json")
    with pytest.raises(InputError, match="syllable"):
        TextPipeline.load(data_dir)
