"""Checks of prepared data: broken data ends with one line, and intact data loads."""

import logging
import shutil
from argparse import Namespace

import pytest
from breakages import DATA, change, remove
from commands import SMALL
from fairseq import tasks
from models import configuration

from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.data_checks import infer_languages
from aiayn_plugin.text.manifest import MANIFEST


@pytest.fixture(params=["manifest", "no manifest"])
def data(request, corpus, tmp_path):
    """A copy of a data directory as made by aiayn prepare, or by fairseq-preprocess."""
    copy = shutil.copytree(corpus, tmp_path / "data")
    if request.param == "no manifest":
        (copy / MANIFEST).unlink()
    return copy


def load(data, split="test", *flags, combine=False, target=False):
    """Return the task after loading a split as fairseq's commands do."""
    cfg = configuration(*SMALL, *flags)
    cfg.task.data = str(data)
    task = tasks.setup_task(cfg.task)
    task.has_criterion = target
    task.load_dataset(split, combine=combine)
    return task


def one_line(error):
    """Return the message, which must be one readable line."""
    assert "\n" not in str(error.value) and len(str(error.value)) < 600
    return str(error.value)


OTHER_ORDER = "dict.*.txt: other order"
#: Ways to break data of each kind; test_dictionary.py and test_binary_data.py have the others.
WAYS = [
    *(
        ("manifest", way)
        for way in (OTHER_ORDER, "de.idx: missing", "de.bin: cut", "target: of another split")
    ),
    *(("no manifest", way) for way in DATA if way != OTHER_ORDER),
]


@pytest.mark.parametrize(("data", "way"), WAYS, indirect=["data"])
def test_broken_data_ends_with_one_line(data, way):
    DATA[way](data)
    with pytest.raises(InputError) as error:
        load(data, target=True)
    assert str(data) in one_line(error)


@pytest.mark.parametrize("flags", [(), ("-s", "de", "-t", "en")])
def test_intact_data_loads(data, flags, caplog):
    for split, sentences in (("test", 5), ("valid", 214)):
        assert len(load(data, split, *flags).dataset(split)) == sentences
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_the_error_for_an_unknown_split_lists_the_splits(data):
    with pytest.raises(InputError) as error:
        load(data, "tset")
    message = one_line(error)
    assert message.startswith("no split 'tset' of en and de in ")
    assert message.endswith(f"in {data}: its splits are test, train, valid")


def test_the_error_for_the_wrong_format_names_the_option(data):
    with pytest.raises(InputError, match="has a different format: give --dataset-impl raw for"):
        load(data, "test", "--dataset-impl", "raw")


def test_one_language_of_the_reverse_direction_is_refused(data):
    """fairseq would ignore it."""
    with pytest.raises(InputError, match="give both --source-lang and --target-lang"):
        load(data, "test", "-s", "de")


def test_a_split_without_its_target_is_loaded_with_a_warning(corpus, tmp_path, caplog):
    """The files are those of fairseq-preprocess --only-source."""
    data = shutil.copytree(corpus, tmp_path / "data")
    (data / MANIFEST).unlink()
    remove("test.en-de.de.bin", "test.en-de.de.idx")(data)
    task = load(data)
    assert len(task.dataset("test")) == 5 and task.dataset("test").tgt is None
    assert "hence no references or scores" in caplog.text
    with pytest.raises(InputError, match=r"target side is missing \(.*de.bin and .*de.idx\)"):
        load(data, target=True)


def test_the_languages_of_multilingual_training_are_not_inferred(corpus, tmp_path):
    options = {"data": str(corpus), "tokenizer": "moses", "source_lang": None, "target_lang": None}
    one, many = Namespace(**options), Namespace(**options, lang_pairs="de-en,en-de")
    infer_languages(one)
    infer_languages(many)
    assert (one.source_lang, many.source_lang) == ("en", None)
    with pytest.raises(InputError, match="has no file of a language pair"):
        infer_languages(Namespace(**{**options, "data": str(tmp_path)}))


def test_shards_have_the_same_dictionaries(corpus, tmp_path):
    """fairseq reads those of the first directory only."""
    shard = shutil.copytree(corpus, tmp_path / "shard")
    load(f"{corpus}:{shard}")
    (shard / MANIFEST).unlink()
    with (shard / "dict.de.txt").open("a") as file:
        file.write("another 1\n")
    with pytest.raises(InputError, match="shard/dict.de.txt differs from .*dict.de.txt: prepare"):
        load(f"{corpus}:{shard}")
    with pytest.raises(InputError, match="the data directory /none is missing"):
        load(f"{corpus}:/none")


def test_each_file_of_a_combined_split_is_checked(data):
    for lang in ("en", "de"):
        for end in ("bin", "idx"):
            shutil.copy(data / f"test.en-de.{lang}.{end}", data / f"valid1.en-de.{lang}.{end}")
    with pytest.raises(InputError, match=r"several valid sets \(.*\): give --upsample-primary 1"):
        load(data, "valid", combine=True)
    task = load(data, "valid", "--upsample-primary", "1", combine=True)
    assert len(task.dataset("valid")) == 219
    change(lambda content: content[:-2], "valid1.en-de.de.bin")(data)
    with pytest.raises(InputError, match="valid1.en-de.de.bin has"):
        load(data, "valid", "--upsample-primary", "1", combine=True)


def test_files_that_fairseq_does_not_read_are_not_checked(data):
    """It reads valid, valid1, … until a source side is missing, and prefers the pair en-de."""
    for stray in ("valid2.en-de.en", "valid2.en-de.de", "valid2014.en-de.en", "valid.de-en.en"):
        for end in ("bin", "idx"):
            (data / f"{stray}.{end}").write_bytes(b"broken")
    (data / "valid1.en-de.de.bin").write_bytes(b"no source side")
    task = load(data, "valid", combine=True)
    assert len(task.dataset("valid")) == 214


def test_raw_text_with_unequal_sides_ends_with_one_line(corpus, tmp_path):
    data = shutil.copytree(corpus, tmp_path / "data")
    for lang, lines in (("en", "a\nb\n"), ("de", "a\n")):
        (data / f"raw.en-de.{lang}").write_text(lines)
    with pytest.raises(InputError, match="split 'raw' cannot be loaded: Source and target must"):
        load(data, "raw", "--dataset-impl", "raw")
