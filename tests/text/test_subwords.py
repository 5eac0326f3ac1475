"""§5.1: byte-pair encoding and wordpieces."""

from collections import Counter

import pytest

from aiayn_plugin.corpus.subwords import learn_wordpieces
from aiayn_plugin.errors import InputError
from aiayn_plugin.text.dictionary import SPECIAL_SYMBOLS
from aiayn_plugin.text.subwords import Bpe, WordPieces


def test_bpe_splits_and_joins_words(data_dir):
    bpe = Bpe(data_dir / "codes.bpe")
    assert bpe.encode(["hel", "hello", "@", "@", "lo"]) == "hel he@@ l@@ lo @ @ lo"
    assert bpe.decode("hel he@@ l@@ lo @ @ lo") == ["hel", "hello", "@", "@", "lo"]
    assert bpe.decode("he@@ l@@") == ["hel"]  # an incomplete word
    assert bpe.encode([]) == "" and bpe.decode("") == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not a file of BPE merges"),
        ("#version: 0.2\n", "not a file of BPE merges"),
        ("a b\n", "not a file of BPE merges"),
        ("#version: 0.2\na b\na\n", "line 3"),
        ("#version: 0.2\na b\na \n", "line 3"),
    ],
)
def test_malformed_merges_are_refused(tmp_path, content, message):
    (tmp_path / "codes").write_text(content)
    with pytest.raises(InputError, match=message):
        Bpe(tmp_path / "codes")


def wordpieces(path, words, size):
    """Learn `size` wordpieces from words and their counts; return the file."""
    learn_wordpieces(Counter(words), size, path)
    return path / "wordpieces.model"


def test_word_pieces_split_and_join_words(tmp_path):
    words = {"hello": 5, "world": 4, "help": 3, "höher": 2, "漢字": 1, '"': 3, "x-y": 2}
    model = wordpieces(tmp_path, words, 60)
    pieces = WordPieces(model)
    for tokens in (["hello", '"', "höher", "help", "x-y"], ["world"], [], ["unseen", "字漢", "."]):
        assert pieces.decode(pieces.encode(tokens)) == tokens
    assert pieces.encode(["hello", "hello"]) == "▁hello ▁hello"
    assert pieces.decode("▁he l") == ["hel"]  # an incomplete word
    assert [pieces.continues_word(piece, "▁he") for piece in ("l", "▁l")] == [True, False]
    assert pieces.decode("hello world") == ["hello", "world"]  # already joined
    dictionary = (tmp_path / "dict.txt").read_text("utf-8").splitlines()
    assert "▁hello 1" in dictionary and not any(line.startswith("<") for line in dictionary)
    assert (len(SPECIAL_SYMBOLS) + len(dictionary)) % 8 == 0
    assert wordpieces(tmp_path, words, 60).read_bytes() == model.read_bytes()
    with pytest.raises(InputError, match="cannot learn 10 wordpieces"):
        wordpieces(tmp_path, words, 10)
    model.write_bytes(b"x")
    with pytest.raises(InputError, match="not a sentencepiece model"):
        WordPieces(model)


def test_a_byte_order_mark_does_not_hide_the_version(tmp_path):
    (tmp_path / "codes").write_text("\ufeff#version: 0.2\na b</w>\n", encoding="utf-8")
    assert Bpe(tmp_path / "codes").merges == [("a", "b</w>")]
