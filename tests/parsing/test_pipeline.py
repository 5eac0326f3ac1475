"""§6.3 From raw sentences to treebank words and subwords."""

import pytest

from aiayn_plugin.parsing.pipeline import ParsingPipeline, read_tree
from aiayn_plugin.text.settings import PENN, TextSettings


@pytest.fixture
def pipeline(tmp_path):
    """A pipeline whose codes merge "ab" and then "abc", of a text without a lone "ab"."""
    (tmp_path / "codes.bpe").write_text("#version: 0.2\na b\nab c</w>\n")
    (tmp_path / "dict.en.txt").write_text("abc 3\na@@ 1\nb@@ 1\nc 1\n")
    from aiayn_plugin.text.manifest import hash_file

    settings = TextSettings("en", "tree", 2, PENN, codes_sha256=hash_file(tmp_path / "codes.bpe"))
    settings.save(tmp_path / "text.json")
    return ParsingPipeline.load(tmp_path)


@pytest.mark.parametrize(
    "line, expected",
    [
        ('It isn\'t "new".', "It is n't `` new '' ."),
        ("It’s the dog’s bone — isn’t it?", "It 's the dog 's bone -- is n't it ?"),
        ("“No” … (yes)", "`` No '' ... ( yes )"),
        ("a\u00a0b\u2028c\x01d", "a b cd"),
        ("", ""),
    ],
)
def test_raw_sentences_are_split_as_in_the_treebank(pipeline, line, expected):
    assert pipeline.words(line) == expected.split()


def test_tokenised_words_keep_their_boundaries_and_get_plain_spellings(pipeline):
    assert pipeline.words(r"-LRB- 1\/2 isn't -RRB-", tokenised=True) == ["(", "1/2", "isn't", ")"]


@pytest.mark.parametrize(
    "word, subwords",
    [
        ("abc", "abc"),
        ("abac", "a@@ b@@ a@@ c"),
        ("aüc", "a@@ c"),
        ("ü", "ü"),
        ("üc", "c"),
    ],
)
def test_subwords_are_those_of_the_training_text(pipeline, word, subwords):
    """Merges outside the vocabulary are undone; only word-final unknown characters are kept."""
    assert pipeline.encode([word]) == subwords.split()


def test_unknown_symbols_are_ignored():
    assert read_tree("(S <unk> NN <<unk>> )S", ["(a"])[0].leaves() == ["-LRB-a"]
