"""Raw sentences to the words and the subwords of a treebank."""

import pytest

from aiayn_plugin.parsing.pipeline import ParsingPipeline, read_tree
from aiayn_plugin.text.settings import PENN, TextSettings


@pytest.fixture
def pipeline(tmp_path):
    """A pipeline whose codes merge "ab" and then "abc", of a text without a lone "ab"."""
    (tmp_path / "codes.bpe").write_text("#version: 0.2\na b\nab c</w>\n")
    (tmp_path / "dict.en.txt").write_text("abc 3\na@@ 1\nb@@ 1\nc 1\n")
    from aiayn_plugin.text.manifest import sha256

    settings = TextSettings("en", "tree", 2, PENN, codes_sha256=sha256(tmp_path / "codes.bpe"))
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
def test_raw_words_are_the_treebanks(pipeline, line, expected):
    assert pipeline.words(line) == expected.split()


def test_tokenised_words_stay_but_for_the_treebanks_spellings(pipeline):
    assert pipeline.words(r"-LRB- 1\/2 isn't -RRB-", tokenised=True) == ["(", "1/2", "isn't", ")"]


@pytest.mark.parametrize(
    "word, pieces",
    [
        ("abc", "abc"),
        ("abac", "a@@ b@@ a@@ c"),
        ("aüc", "a@@ c"),
        ("ü", "ü"),
        ("üc", "c"),
    ],
)
def test_pieces_that_the_training_text_had(pipeline, word, pieces):
    """A merge that is no piece is split again; of unknown characters only the end of a word
    stays."""
    assert pipeline.encode([word]) == pieces.split()


def test_unknown_symbols_are_none_of_a_tree():
    assert read_tree("(S <unk> NN <<unk>> )S", ["(a"])[0].leaves() == ["-LRB-a"]
