"""`aiayn wmt14` with a miniature of the public files: complete and repeated runs."""

import io
import shutil

import pytest
from fairseq.data import Dictionary, data_utils
from mirror import ODD, content, wmt14_arguments
from subword_nmt.learn_bpe import learn_bpe

from aiayn_plugin.cli.wmt14 import CLEANING, LOCK
from aiayn_plugin.text.lines import clean_line
from aiayn_plugin.text.pipeline import TextPipeline
from aiayn_plugin.text.settings import SETTINGS_FILE, TextSettings


@pytest.mark.parametrize("pair", ["en-de", "en-fr"])
def test_data_contains_the_subwords_of_each_kept_pair(request, pair, read):
    folder, done = request.getfixturevalue(pair.replace("-", "_"))
    data = folder / "data"
    langs = pair.split("-")
    pipeline = TextPipeline.load(data)
    texts = read(pair, folder, folder.parent / "table.yaml")
    kept = []
    for text in texts["train"]:
        sides = [file.read_bytes().split(b"\n")[:-1] for file in text.files]
        for lines in zip(*sides, strict=True):
            encoded = [
                pipeline.encode(line.decode("utf-8", "replace"), lang)
                for line, lang in zip(lines, langs, strict=True)
            ]
            sizes = sorted(len(side.split()) for side in encoded)
            if b"\xff" not in lines[0] and sizes[0] and sizes[1] <= min(250, 1.5 * sizes[0]):
                kept.append(encoded)
    corpora = len(texts["train"])
    assert len(kept) > 55 * corpora
    assert "q" in kept[-1][0] and "q" in kept[-1][1]  # kept by its length in subwords, not in words
    unknown = Dictionary.load(str(data / "dict.en.txt")).unk_string()
    for side, lang in enumerate(langs):
        dictionary = Dictionary.load(str(data / f"dict.{lang}.txt"))
        dataset = data_utils.load_indexed_dataset(str(data / f"train.{pair}.{lang}"), dictionary)
        pieces = [
            [piece if piece in dictionary else unknown for piece in line[side].split()]
            for line in kept
        ]
        wanted = [" ".join(line) for line in pieces]
        assert [dictionary.string(sentence) for sentence in dataset] == wanted
        assert len(dictionary) % 8 == 0
        assert abs(len(dictionary) - 400) < 60 if pair == "en-de" else len(dictionary) <= 408
    total = (60 + len(ODD) + 1) * corpora
    assert f"training pairs: {len(kept)} of {total} kept; dropped: " in done.stderr
    for reason in ("not UTF-8", "too long", "too different in length"):
        assert f"{corpora} {reason}" in done.stderr


def test_merges_are_learned_on_the_training_text_of_both_languages(en_de):
    """§5.1: one vocabulary of 400 subwords, characters included."""
    folder, _ = en_de
    lines = []
    for corpus in ("europarl-v7", "commoncrawl", "news-commentary-v9"):
        for lang in ("en", "de"):
            tokens = folder / "work" / f"tokenised.{corpus}" / f"text.{lang}"
            lines += tokens.read_text("utf-8").split("\n")
    learn_bpe(lines, expected := io.StringIO(), 400, total_symbols=True)
    assert (folder / "data" / "codes.bpe").read_text("utf-8") == expected.getvalue()


def test_test_sets_are_complete_and_kept_as_raw_text(en_de):
    folder, done = en_de
    for split, corpus in (("valid", "newstest2013"), ("test", "newstest2014")):
        for lang in ("en", "de"):
            lines = (folder / "work" / f"raw.{corpus}" / lang).read_text("utf-8").split("\n")[:-1]
            kept = (folder / "data" / f"{split}.raw.{lang}").read_text("utf-8").splitlines()
            assert len(lines) == 20 and kept == [clean_line(line) for line in lines]
            binary = data_utils.load_indexed_dataset(
                str(folder / "data" / f"{split}.en-de.{lang}"),
                Dictionary.load(str(folder / "data" / f"dict.{lang}.txt")),
            )
            assert len(binary) == 20 and min(binary.sizes) > 1
    assert done.stderr.count("verified by its sha256") == 5
    assert f"data is in {folder}/data; next: fairseq-train {folder}/data" in done.stdout


def test_second_run_neither_changes_nor_fetches_anything(en_de, mirror, succeed):
    folder, _ = en_de
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    arguments = wmt14_arguments("en-de", folder, mirror.table(folder.parent / "table.yaml"))
    for name in ("download", "work"):  # which the user may delete
        (folder / name).rename(folder.parent / name)
    try:
        assert "is up to date" in succeed("aiayn", "wmt14", *arguments).stdout
        assert not mirror.requests and not (folder / "download").exists()
    finally:
        for name in ("download", "work"):
            (folder.parent / name).rename(folder / name)
    succeed("aiayn", "wmt14", *arguments)
    after = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert after == before and not mirror.requests


def test_different_settings_are_refused_and_otherwise_reuse_stages(
    en_de, mirror, tmp_path, succeed, error
):
    folder = shutil.copytree(en_de[0], tmp_path / "dest", symlinks=True)
    table = mirror.table(tmp_path / "table.yaml")
    before = content(folder / "data")
    args = ["en-de", "--dest", str(folder), "--table", str(table)]
    (folder / "data" / "train.en-de.en.bin").rename(tmp_path / "bin")
    assert "train.en-de.en.bin is missing" in error("wmt14", *args, "--vocabulary=400")
    (tmp_path / "bin").rename(folder / "data" / "train.en-de.en.bin")
    line = error("wmt14", *args, "--vocabulary=300")
    assert "different settings: vocabulary (was 400, now 300)" in line and "--dest" in line
    assert content(folder / "data") == before
    shutil.rmtree(folder / "data")

    def change(table):  # different files of an archive
        europarl = "training/europarl-v7.fr-en"
        table["pairs"]["en-de"]["train"][0].update(en=f"{europarl}.en", de=f"{europarl}.fr")

    mirror.table(table, change)
    done = succeed("aiayn", "wmt14", *args, "--vocabulary=300")
    assert "commoncrawl: tokenised by an earlier run" in done.stderr
    assert "europarl-v7: tokenised in" in done.stderr
    assert "learning 300" in done.stderr and "train: split into subwords in" in done.stderr
    shutil.rmtree(folder / "data")
    done = succeed("aiayn", "wmt14", *args, "--vocabulary=300", "--protect-patterns")
    reused = [line for line in done.stderr.splitlines() if line.endswith("by an earlier run")]
    assert reused and all(" extracted " in line for line in reused)
    assert not mirror.requests


@pytest.mark.parametrize(
    ("there", "options", "message"),
    [
        (
            {},
            ("--protect-patterns",),
            "it was made without --protect-patterns: omit this option, or ",
        ),
        ({"vocabulary": 500, "tokenizer": "sacremoses"}, (), "; choose another --dest"),
    ],
)
def test_different_settings_are_refused_before_anything_is_fetched(
    mirror, tmp_path, error, there, options, message
):
    dest = tmp_path / "dest"
    (dest / "data").mkdir(parents=True)
    (dest / LOCK).touch()
    made = {
        "vocabulary": 400,
        "normalize_punctuation": True,
        "cleaning": CLEANING._asdict(),
        "inputs": {"train.europarl-v7": "00"},
        **there,
    }
    TextSettings("en", "de", 0, **made).save(dest / "data" / SETTINGS_FILE)
    table = mirror.table(tmp_path / "table.yaml")
    assert message in error("wmt14", *wmt14_arguments("en-de", dest, table, *options))
    assert not mirror.requests


def test_a_colon_in_dest_is_refused(mirror, tmp_path, error):
    """fairseq would read two directories."""
    dest = tmp_path / "a:b"
    line = error("wmt14", "en-de", "--dest", dest, "--table", mirror.table(tmp_path / "table.yaml"))
    assert line.endswith(f"--dest {dest}: fairseq splits the name at the colon")
    assert not dest.exists() and not mirror.requests


def test_table_may_name_files_of_the_user(mirror, tmp_path, read):
    for lang in ("en", "de"):
        (tmp_path / f"mine.{lang}").write_text(f"hello {lang}\n" * 30)

    def add(table):
        table["pairs"]["en-de"]["train"] = [{"name": "mine", "en": "mine.en", "de": "mine.de"}]

    texts = read("en-de", tmp_path / "dest", mirror.table(tmp_path / "table.yaml", add))
    assert [text.name for text in texts["train"]] == ["mine"]
    assert texts["train"][0].files == (tmp_path / "mine.en", tmp_path / "mine.de")
    assert texts["train"][0].lines == 30
