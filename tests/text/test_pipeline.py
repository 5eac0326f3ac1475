"""Raw text to subwords and back, with the settings of a data directory."""

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


def test_pipeline_refuses_other_codes_and_unknown_models(data_dir):
    (data_dir / "codes.bpe").write_text((data_dir / "codes.bpe").read_text() + "a b\n")
    with pytest.raises(InputError, match="not the codes"):
        TextPipeline.load(data_dir)
    TextSettings("en", "de", 3, subword="syllable").save(data_dir / "text.json")
    with pytest.raises(InputError, match="syllable"):
        TextPipeline.load(data_dir)
