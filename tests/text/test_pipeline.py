"""Raw text to subwords and back, with the settings of a data directory."""

from dataclasses import replace

import pytest

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.pipeline import TextPipeline
from aiayn_plugin.text.settings import TextSettings


def test_raw_text_becomes_subwords_and_raw_text_again(data_dir):
    pipeline = TextPipeline.load(data_dir)
    assert pipeline.encode("hello,\u2028hel!") == "he@@ l@@ lo , hel !"
    assert pipeline.encode("it's").endswith("'@@ s"), "the source language"
    assert pipeline.encode("it's", "de").endswith("' s")
    assert pipeline.decode("he@@ l@@ lo , hel !") == "hello, hel!"
    assert pipeline.decode("it 's") == "it 's", "the target language"
    assert pipeline.decode("it 's", "en") == "it's"
    with pytest.raises(InputError, match="language 'fr', only en and de"):
        pipeline.encode("hello", "fr")


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
