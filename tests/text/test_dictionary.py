"""fairseq's dictionary files: read as by fairseq, or refused with file and line."""

import re

import pytest
from breakages import DICTIONARY
from fairseq.data import Dictionary

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.dictionary import (
    SPECIAL_SYMBOLS,
    Vocabulary,
    hash_words,
    read_dictionary,
)

GOOD = b"the 12\nhe@@ 9\nll 7\no 7\nmadeupword0000 0\n"


def test_token_ids_are_those_of_fairseq(tmp_path):
    path = tmp_path / "dict.en.txt"
    path.write_bytes(GOOD + b"a 3\na 2 #fairseq:overwrite\n")
    theirs, ours = Dictionary.load(str(path)), Vocabulary(read_dictionary(path))
    assert ours.symbols == theirs.symbols and len(ours) == len(theirs)
    special = (theirs.bos(), theirs.pad(), theirs.eos(), theirs.unk())
    assert (ours.bos, ours.pad, ours.eos, ours.unk) == special
    for line in ("", "the ll o", "he@@ a never <unk> </s> <pad> the"):
        ids = theirs.encode_line(line, add_if_not_exist=False).tolist()
        assert ours.encode(line.split()) == ids
        assert " ".join(ours.decode([ours.bos, *ids])) == theirs.string(ids)


@pytest.mark.parametrize(
    "content",
    [
        GOOD,
        GOOD[:-1],
        GOOD.replace(b"\n", b"\r\n"),
        b"a\xc2\xa0b 3\n",
        "\u200b 1 \n".encode(),
        b"<unk> 4 #fairseq:overwrite\n",
        b"a 3\na 2 #fairseq:overwrite\n",
        b"#fairseq:overwrite 3\n",
    ],
)
def test_accepted_dictionaries_are_read_as_by_fairseq(tmp_path, content):
    path = tmp_path / "dict.en.txt"
    path.write_bytes(content)
    theirs = Dictionary.load(str(path))
    assert theirs.symbols[: theirs.nspecial] == list(SPECIAL_SYMBOLS)
    words = read_dictionary(path)
    assert words == theirs.symbols[theirs.nspecial :]


BROKEN = {
    name: how for name, how in DICTIONARY.items() if name not in ("other order", "lines missing")
}


@pytest.mark.parametrize("how", BROKEN.values(), ids=BROKEN)
def test_malformed_dictionary_is_one_line_with_its_location(tmp_path, how):
    path = tmp_path / "dict.en.txt"
    path.write_bytes(how(b"".join(b"word%d@@ %d\n" % (n, 900 - n) for n in range(60))))
    with pytest.raises(InputError) as error:
        read_dictionary(path)
    assert re.match(rf"{re.escape(str(path))}(, line \d+|) *(:| is empty)", str(error.value))
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


def test_a_dictionary_of_millions_of_words_is_refused(tmp_path):
    path = tmp_path / "dict.en.txt"
    path.write_text("".join(f"{n} 1\n" for n in range(1_000_001)))
    with pytest.raises(InputError, match="has 1,000,001 words; the limit is 1,000,000"):
        read_dictionary(path)


def test_hash_depends_on_words_and_their_order():
    assert hash_words(["a", "b"]) == hash_words(iter("ab"))
    assert len({hash_words(words) for words in (["a", "b"], ["b", "a"], ["ab"], ["a"])}) == 4
