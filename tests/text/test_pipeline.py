"""Raw text to subwords and back, with the settings of a data directory."""

from dataclasses import replace

import pytest

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.pipeline import TextPipeline
from aiayn_plugin.text.settings import TextSettings


def test_raw_text_becomes_subwords_and_raw_text_again(data_dir):
    pipeline = TextPipeline.load(data_dir)
    assert pipeline.encode("hello,\u2028hel!") == "he@@ l@@ lo , hel !"
    assert pipeline.encode("it's", "en").endswith("'@@ s")
    assert pipeline.encode("it's", "de").endswith("' s")
    assert pipeline.decode("he@@ l@@ lo , hel !") == "hello, hel!"
    with pytest.raises(InputError, match="language 'fr', only en and de"):
        pipeline.encode("hello", "fr")


@pytest.mark.parametrize(
    ("kind", "subwords"), [("moses", "1@@ 5 : 0@@ 5"), ("sacremoses", "1@@ 5@@ :@@ 0@@ 5")]
)
def test_settings_choose_the_tokeniser(data_dir, kind, subwords):
    path = data_dir / "text.json"
    settings = TextSettings.load(path)
    assert settings.tokenizer == "moses"  # the default
    replace(settings, tokenizer=kind).save(path)
    assert TextPipeline.load(data_dir).encode("15:05") == subwords


def test_word_of_a_hundred_thousand_letters_is_restored(data_dir):
    pipeline = TextPipeline.load(data_dir)
    word = "hello" * 20_000
    line = pipeline.encode(f"{word} hello")
    assert line.startswith("he@@ l@@ l@@ ") and line.endswith("he@@ l@@ lo")
    assert pipeline.decode(line) == f"{word} hello"


def test_unknown_tokeniser_is_refused(data_dir):
    settings = TextSettings.load(data_dir / "text.json")
    replace(settings, tokenizer="perl").save(data_dir / "text.json")
    with pytest.raises(InputError, match="does not support perl with bpe"):
        TextPipeline.load(data_dir)


def test_changed_or_unknown_subword_models_are_refused(data_dir):
    (data_dir / "codes.bpe").write_text((data_dir / "codes.bpe").read_text() + "a b\n")
    with pytest.raises(InputError, match="codes.bpe does not match text.json"):
        TextPipeline.load(data_dir)
    TextSettings("en", "de", 3, subword="syllable").save(data_dir / "text.json")
    with pytest.raises(InputError, match="syllable"):
        TextPipeline.load(data_dir)
