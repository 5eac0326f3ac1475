"""fairseq's binary sentences: those of its own builders are taken, and broken ones are not."""

import numpy as np
import pytest
import torch
from breakages import BIN, IDX
from fairseq.data import indexed_dataset

from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin import binary_data as binary
from aiayn_plugin.fairseq_plugin.binary_data import check_sentences

EOS, ENTRIES = 2, 1000
SENTENCES = [[5, 6, EOS], [EOS], [999, 0, 3, 1, EOS], *([n, EOS] for n in range(4, 900))]


@pytest.fixture(params=["mmap", "cached"])
def write(request, tmp_path):
    """`write(sentences)` writes them as fairseq-preprocess does, and returns their prefix."""

    def build(sentences, vocab_size=ENTRIES):
        prefix = str(tmp_path / "x")
        builder = indexed_dataset.make_builder(f"{prefix}.bin", request.param, vocab_size)
        for sentence in sentences:
            builder.add_item(torch.IntTensor(sentence))
        builder.finalize(f"{prefix}.idx")
        return prefix

    return build


@pytest.mark.parametrize("vocab_size", [ENTRIES, 100_000])  # 2 and 4 bytes a token
def test_what_fairseq_writes_is_taken(write, monkeypatch, vocab_size):
    monkeypatch.setattr(binary, "_CHUNK", 7)
    assert check_sentences(write(SENTENCES, vocab_size), ENTRIES, EOS) == len(SENTENCES)


@pytest.mark.parametrize("place", [0, 2, 6, 7, 500])
@pytest.mark.parametrize(
    "sentence, message",
    [
        ([1000, EOS], "sentence {} holds the token 1000, and the dictionary has 1,000 entries"),
        ([5, 6], "sentence {} does not end in the end symbol"),
    ],
)
def test_the_first_odd_sentence_is_named(write, monkeypatch, place, sentence, message):
    monkeypatch.setattr(binary, "_CHUNK", 7)
    sentences = [*SENTENCES]
    sentences[place] = sentence
    with pytest.raises(InputError, match=message.format(place + 1)):
        check_sentences(write(sentences), ENTRIES, EOS)


WAYS = {
    **{f"bin {name}": how for name, how in BIN.items()},
    **{f"idx {name}": how for name, how in IDX.items()},
}


@pytest.mark.parametrize("write", ["mmap"], indirect=True)
@pytest.mark.parametrize("way", WAYS)
def test_broken_files_are_one_line(write, way):
    end, how = way[:3], WAYS[way]
    path = f"{write(SENTENCES)}.{end}"
    with open(path, "r+b") as file:
        content = file.read()
        file.seek(0)
        file.truncate()
        file.write(how(content))
    with pytest.raises(InputError) as error:
        check_sentences(path[:-4], ENTRIES, EOS)
    assert path[:-4] in str(error.value) and "\n" not in str(error.value)


def test_every_flipped_byte_of_an_index_is_found(write):
    """A random sample of bytes, and all of the head."""
    path = f"{write(SENTENCES)}.idx"
    good = np.fromfile(path, np.uint8)
    rng = np.random.default_rng(1)
    places = [*range(60), *rng.integers(0, len(good), 200)]
    for place in places:
        bad = good.copy()
        bad[place] ^= 1 << rng.integers(8)
        bad.tofile(path)
        with pytest.raises(InputError):
            check_sentences(path[:-4], ENTRIES, EOS)


def test_rows_of_a_table_are_no_sentences(write, tmp_path):
    builder = indexed_dataset.make_builder(str(tmp_path / "x.bin"), "cached", ENTRIES)
    builder.add_item(torch.IntTensor([[3, 4], [5, EOS]]))
    builder.finalize(str(tmp_path / "x.idx"))
    with pytest.raises(InputError, match="tables"):
        check_sentences(str(tmp_path / "x"), ENTRIES, EOS)
