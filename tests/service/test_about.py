"""What the translation page says about its model."""

from aiayn_plugin.service.about import describe_model
from aiayn_plugin.text.settings import TextSettings


def test_a_model_is_described_as_far_as_its_data_allows(tmp_path):
    inputs = {"train.europarl": "0", "train.commoncrawl": "1", "valid.newstest2013": "2"}
    corpora = ["commoncrawl", "europarl"]
    settings = TextSettings("en", "de", 100, inputs=inputs)
    unknown = {"pairs": None, "corpora": corpora, "examples": []}
    assert describe_model(tmp_path, settings, 90) == unknown
    (tmp_path / "pairs.txt").write_text("training pairs: 4,500 of 5,000 kept; dropped: 500 ratio\n")
    sentences = [f"This is sentence {n}." for n in range(10)]
    (tmp_path / "test.raw.en").write_text("\n".join(["Short", *sentences, "x" * 200]) + "\n")
    known = {"pairs": "4,500", "corpora": corpora, "examples": sentences[:8:2]}
    assert describe_model(tmp_path, settings, 90) == known
    assert describe_model(tmp_path, settings, 18)["examples"] == []  # the service rejects them
    (tmp_path / "pairs.txt").unlink()
    (tmp_path / "pairs.txt").mkdir()
    (tmp_path / "test.raw.en").write_bytes(b"\xff\xfe\n")
    assert describe_model(tmp_path, settings, 90) == unknown
