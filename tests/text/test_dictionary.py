"""fairseq's dictionary files: read as fairseq reads them, or refused with file and line."""

import re

import pytest
from breakages import DICTIONARY
from fairseq.data import Dictionary

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.dictionary import (
    SPECIAL,
    Vocabulary,
    read_dictionary,
    rising_line,
    words_sha256,
)

GOOD = b"the 12\nhe@@ 9\nll 7\no 7\nmadeupword0000 0\n"


def test_a_vocabulary_numbers_words_as_fairseq_does(tmp_path):
    path = tmp_path / "dict.en.txt"
    path.write_bytes(GOOD + b"a 3\na 2 #fairseq:overwrite\n")
    theirs, ours = Dictionary.load(str(path)), Vocabulary(w for w, _ in read_dictionary(path))
    assert ours.symbols == theirs.symbols and len(ours) == len(theirs)
    assert (ours.bos, ours.pad, ours.eos, ours.unk) == (
        theirs.bos(),
        theirs.pad(),
        theirs.eos(),
        theirs.unk(),
    )
    for line in ("", "the ll o", "he@@ a never <unk> </s> <pad> the"):
        numbers = theirs.encode_line(line, add_if_not_exist=False).tolist()
        assert ours.numbers(line.split()) == numbers
        assert " ".join(ours.pieces([ours.bos, *numbers])) == theirs.string(numbers)


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
def test_what_fairseq_takes_is_read_as_fairseq_reads_it(tmp_path, content):
    path = tmp_path / "dict.en.txt"
    path.write_bytes(content)
    theirs = Dictionary.load(str(path))
    assert theirs.symbols[: theirs.nspecial] == list(SPECIAL)
    words = [word for word, _ in read_dictionary(path)]
    assert words == theirs.symbols[theirs.nspecial :]


BROKEN = {
    name: how for name, how in DICTIONARY.items() if name not in ("other order", "lines missing")
}


@pytest.mark.parametrize("how", BROKEN.values(), ids=BROKEN)
def test_a_broken_dictionary_is_one_line_with_its_place(tmp_path, how):
    path = tmp_path / "dict.en.txt"
    path.write_bytes(how(b"".join(b"word%d@@ %d\n" % (n, 900 - n) for n in range(60))))
    with pytest.raises(InputError) as error:
        read_dictionary(path)
    assert re.match(rf"{re.escape(str(path))}(, line \d+|) *(:| is empty)", str(error.value))
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


def test_the_checksum_is_of_the_words_in_their_order():
    assert words_sha256(["a", "b"]) == words_sha256(iter("ab"))
    assert len({words_sha256(words) for words in (["a", "b"], ["b", "a"], ["ab"], ["a"])}) == 4


@pytest.mark.parametrize("counts, line", [([9, 9, 3, 0], None), ([9, 3, 9, 3], 3), ([1], None)])
def test_words_that_are_not_sorted_by_their_counts(counts, line):
    assert rising_line([("x", count) for count in counts]) == line
