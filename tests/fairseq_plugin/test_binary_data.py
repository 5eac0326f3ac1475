"""fairseq's binary sentences: files of its own builders pass, and broken ones are refused."""

import numpy as np
import pytest
import torch
from breakages import BIN, IDX
from fairseq.data import indexed_dataset

from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin import binary_data
from aiayn_plugin.fairseq_plugin.binary_data import check_sentences

EOS, VOCABULARY = 2, 1000
SENTENCES = [[5, 6, EOS], [EOS], [999, 0, 3, 1, EOS], *([n, EOS] for n in range(4, 900))]


@pytest.fixture(autouse=True)
def several_chunks(monkeypatch):
    monkeypatch.setattr(binary_data, "CHUNK_SIZE", 7)


@pytest.fixture
def write(tmp_path):
    """`write(sentences)` writes them as fairseq-preprocess does, and returns their prefix."""

    def build(sentences, vocab_size=VOCABULARY):
        prefix = str(tmp_path / "x")
        builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", vocab_size)
        for sentence in sentences:
            builder.add_item(torch.IntTensor(sentence))
        builder.finalize(f"{prefix}.idx")
        return prefix

    return build


@pytest.mark.parametrize("vocab_size", [VOCABULARY, 100_000])  # 2 and 4 bytes per token
def test_files_of_fairseq_pass(write, vocab_size):
    prefix = write(SENTENCES, vocab_size)
    assert check_sentences(prefix, VOCABULARY, EOS) == len(SENTENCES)


@pytest.mark.parametrize("position", [0, 2, 6, 7, 500])
@pytest.mark.parametrize(
    "sentence, message",
    [
        ([1000, EOS], "sentence {} has the token ID 1000, but the dictionary has 1,000 entries"),
        ([5, 6], "sentence {} does not end with the end symbol"),
    ],
)
def test_the_error_names_the_first_invalid_sentence(write, position, sentence, message):
    sentences = [*SENTENCES]
    sentences[position] = sentence
    with pytest.raises(InputError, match=message.format(position + 1)):
        check_sentences(write(sentences), VOCABULARY, EOS)


BREAKAGES = [*(("bin", name) for name in BIN), *(("idx", name) for name in IDX)]


@pytest.mark.parametrize("ending, name", BREAKAGES)
def test_a_broken_file_is_refused_in_one_line(write, ending, name):
    prefix = write(SENTENCES)
    with open(f"{prefix}.{ending}", "r+b") as file:
        content = file.read()
        file.seek(0)
        file.truncate()
        file.write({"bin": BIN, "idx": IDX}[ending][name](content))
    with pytest.raises(InputError) as error:
        check_sentences(prefix, VOCABULARY, EOS)
    assert prefix in str(error.value) and "\n" not in str(error.value)


def test_every_flipped_bit_of_an_index_is_detected(write):
    """One bit in each byte of the header, and in a random sample of the other bytes."""
    prefix = write(SENTENCES)
    original = np.fromfile(f"{prefix}.idx", np.uint8)
    rng = np.random.default_rng(1)
    for position in [*range(60), *rng.integers(0, len(original), 200)]:
        changed = original.copy()
        changed[position] ^= 1 << rng.integers(8)
        changed.tofile(f"{prefix}.idx")
        with pytest.raises(InputError):
            check_sentences(prefix, VOCABULARY, EOS)
