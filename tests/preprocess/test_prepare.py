"""`aiayn prepare` as users run it."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import alive, wait_until
from fairseq.data import Dictionary, data_utils

from aiayn_plugin.text.lines import clean_line
from aiayn_plugin.text.manifest import MANIFEST, read_manifest
from aiayn_plugin.text.pipeline import TextPipeline
from aiayn_plugin.text.settings import PAIRS_FILE, TextSettings

ODD = [
    "a\u2028b",
    "a\x85b",
    "a\fb",
    "a\0b",
    "a\rb\r",
    "\u00a0a\u200bb",
    "<s> </s> <unk> <pad>",
    "#fairseq:overwrite 1",
    "x@@ y @@",
    "a \x1c \x1d \x1e b\x0b",
]
PLAIN = [f"The {noun} number {n} sleeps, doesn't it?" for n in range(40) for noun in ("dog", "cat")]
ENGLISH = ["\ufeff\ufeffThe dog", *PLAIN, *ODD]  # with two byte-order marks
GERMAN = [
    "Der Hund",
    *(line.replace("sleeps", "schläft") for line in PLAIN),
    *(f"{o} ü" for o in ODD),
]


def write(prefix, english, german, end="\n"):
    """Write the lines to PREFIX.en and PREFIX.de."""
    for lang, lines in (("en", english), ("de", german)):
        Path(f"{prefix}.{lang}").write_bytes("".join(line + end for line in lines).encode())


def make_raw(folder):
    """Write a small corpus: special lines, pairs to drop, and Windows line ends."""
    folder.mkdir()
    bad_english = ["", "word " * 300, "word " * 30, "one", "o" * 1001]
    bad_german = ["leer", "Wort " * 300, "Wort", "", "zwei"]
    write(folder / "train", ENGLISH + bad_english, GERMAN + bad_german)
    write(folder / "valid", ["", *ODD, ""], ["", *GERMAN[-len(ODD) :], ""], end="\r\n")
    write(folder / "test", ["\ufeffThe dog", "", "cat"], ["The cat", "", ""])
    return folder


@pytest.fixture
def raw(tmp_path):
    """The directory of a small corpus that a test may change."""
    return make_raw(tmp_path / "raw")


def arguments(raw, destdir, *more):
    prefixes = [f"--{split}pref={raw / split}" for split in ("train", "valid", "test")]
    return ["-s", "en", "-t", "de", *prefixes, "--destdir", str(destdir), "--merges=60", *more]


@pytest.fixture(scope="module")
def made(succeed, tmp_path_factory):
    """The raw text, the data and the output of one complete run."""
    folder = tmp_path_factory.mktemp("made")
    raw = make_raw(folder / "raw")
    (folder / ".data.unfinished" / "work").mkdir(parents=True)  # leftover of a killed run
    (folder / ".data.unfinished" / "dict.en.txt").write_text("half")
    args = arguments(raw, folder / "data", "--workers=3")
    done = succeed("aiayn", "prepare", *args, cwd=folder)
    return raw, folder / "data", done


def sentences(data, split, lang):
    """Return the lines of subwords that fairseq reads."""
    dictionary = Dictionary.load(str(data / f"dict.{lang}.txt"))
    dataset = data_utils.load_indexed_dataset(str(data / f"{split}.en-de.{lang}"), dictionary)
    return [dictionary.string(sentence) for sentence in dataset]


def test_training_data_contains_the_subwords_of_each_kept_line(made):
    _, data, done = made
    pipeline = TextPipeline.load(data)
    for lang, lines in (("en", ["The dog", *ENGLISH[1:]]), ("de", GERMAN)):
        assert sentences(data, "train", lang) == [pipeline.encode(line, lang) for line in lines]
    assert (
        "91 of 96 kept; dropped: 2 empty, 1 too long, 1 too different in length, 1 word too long"
        in done.stderr
    )


def test_special_and_empty_lines_keep_both_sides_aligned(made):
    _, data, _ = made
    pipeline = TextPipeline.load(data)
    for lang, lines in (("en", ["", *ODD, ""]), ("de", ["", *GERMAN[-len(ODD) :], ""])):
        assert sentences(data, "valid", lang) == [pipeline.encode(line, lang) for line in lines]
        kept = (data / f"valid.raw.{lang}").read_text("utf-8").splitlines()
        assert kept == [clean_line(line) for line in lines]
    english, german = (sentences(data, "test", lang) for lang in ("en", "de"))
    assert [bool(line) for line in english] == [True, False, True]
    assert [bool(line) for line in german] == [True, False, False]
    assert english[0] == pipeline.encode("The dog")  # without the byte-order mark


def test_directory_contains_only_the_data(made):
    _, data, done = made
    binary = {
        f"{split}.en-de.{lang}.{end}"
        for split in ("train", "valid", "test")
        for lang in ("en", "de")
        for end in ("bin", "idx")
    }
    text = {f"{split}.raw.{lang}" for split in ("valid", "test") for lang in ("en", "de")}
    names = {path.name for path in data.iterdir()}
    rest = {"dict.en.txt", "dict.de.txt", "codes.bpe", "text.json", PAIRS_FILE}
    assert (data / PAIRS_FILE).read_text().startswith("training pairs: ")
    assert names == binary | text | rest | {MANIFEST}
    assert read_manifest(data).keys() == binary | text | rest
    assert {path.name for path in data.parent.iterdir()} == {"raw", "data"}
    assert (data / "dict.en.txt").read_bytes() == (data / "dict.de.txt").read_bytes()
    settings = TextSettings.load(data / "text.json")
    assert (settings.merges, settings.cleaning["max_ratio"]) == (60, 9.0)
    assert len((data / "codes.bpe").read_text("utf-8").splitlines()) == 61
    assert f"next: fairseq-train {data} --user-dir aiayn_plugin" in done.stdout


def state(folder):
    """Return the time and the content of each file."""
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}


def test_second_run_is_up_to_date_and_changes_nothing(made, succeed):
    raw, data, _ = made
    before = state(data)
    done = succeed("aiayn", "prepare", *arguments(raw, data, "--joined-dictionary"))  # the default
    assert "up to date" in done.stdout
    assert state(data) == before


def test_protected_words_and_normalised_punctuation_are_options(raw, tmp_path, error, succeed):
    line = "At 15:05 and/or “no”"
    for split in ("train", "valid"):
        write(raw / split, [*PLAIN, line], [*PLAIN, line])
    args = arguments(raw, tmp_path / "data", "--normalize-punctuation", "--protect-patterns")
    succeed("aiayn", "prepare", *args)
    settings = TextSettings.load(tmp_path / "data" / "text.json")
    assert settings.tokenizer == "sacremoses"
    subwords = TextPipeline.load(tmp_path / "data").encode(line)
    assert subwords.replace("@@ ", "") == 'At 15:05 and/or " no "'
    assert sentences(tmp_path / "data", "valid", "en")[-1] == subwords
    message = error("prepare", *args[:-1])
    assert "tokenizer (was sacremoses, now moses)" in message
    assert "it was made with --protect-patterns: give this option, or choose" in message


def test_directory_with_different_settings_or_inputs_is_left_alone(made, tmp_path, error):
    raw, data, _ = made
    before = state(data)
    line = error("prepare", *arguments(raw, data, "--merges=50", "--max-ratio=3"))
    assert "merges (was 60, now 50)" in line and "cleaning" in line and "--destdir" in line
    other = shutil.copytree(raw, tmp_path / "other")
    (other / "test.de").write_text("x\ny\nz\n")
    assert "input test.de;" in error("prepare", *arguments(other, data))
    assert state(data) == before


def test_a_changed_directory_is_refused_until_its_checksums_are_deleted(
    made, tmp_path, succeed, error
):
    raw, data, _ = made
    copy = shutil.copytree(data, tmp_path / "copy")
    with open(copy / "valid.raw.de", "a") as file:
        file.write("x\n")
    line = error("prepare", *arguments(raw, copy))
    assert f"{copy}/valid.raw.de" in line and line.endswith(f"delete {copy} to prepare it again")
    (copy / MANIFEST).unlink()
    succeed("aiayn", "prepare", *arguments(raw, copy))


def test_directory_not_made_by_prepare_is_left_alone(raw, tmp_path, error):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "precious").write_text("x")
    assert "not made by aiayn prepare" in error("prepare", *arguments(raw, tmp_path / "data"))
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["precious"]


#: The new content of files of the raw text (None: the file is missing), and parts of the message.
UNUSABLE = [
    ({"valid.de": b"a\n"}, ["valid.en has 12 lines, but", "valid.de has 1"]),
    ({"test.de": None}, ["no file {}/test.de", "found {}/test.en"]),
    ({"train.de": b""}, ["{}/train.de is empty"]),
    ({"train.de": b"gut\nschlecht \xe4\n"}, ["{}/train.de, line 2: not valid UTF-8", "0xe4"]),
    ({"train.en": b"\n" * 96}, ["no training pairs", "96 empty"]),
    ({"train.en": b"a\nb\n", "train.de": b"a\nb\n"}, ["no BPE merges to learn"]),
]


@pytest.mark.parametrize(("files", "parts"), UNUSABLE)
def test_unusable_inputs_are_one_line_and_leave_nothing(raw, tmp_path, error, files, parts):
    for name, content in files.items():
        (raw / name).unlink()
        if content is not None:
            (raw / name).write_bytes(content)
    line = error("prepare", *arguments(raw, tmp_path / "data"))
    assert all(part.format(raw) in line for part in parts), line
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--target-lang=en", "both 'en'"),
        (
            "--target-lang=de-AT",
            "names of the data's files: rename the text, for example to train.de_AT",
        ),
        ("--target-lang=fr", "train.fr: see --trainpref and the languages; found"),
        ("--trainpref={raw}/train.en", "without the language: --trainpref {raw}/train"),
        ("--merges=0", "--merges must be at least 1"),
        (f"--merges={10**20}", "a number is too large"),
        ("--max-ratio=nan", "--max-ratio must be at least 1"),
        ("--max-ratio=inf", "--max-ratio inf must be finite"),
        ("--validpref=", "no file .en: see --validpref"),
        ("--destdir=a:b", "--destdir a:b: fairseq splits the name at the colon"),
        ("--max-tokens=0", "--max-tokens must not be less"),
        ("--destdir=/dev/null/data", "/dev/null"),
    ],
)
def test_invalid_options_are_reported_in_one_line(raw, tmp_path, error, option, message):
    option, message = option.format(raw=raw), message.format(raw=raw)
    assert message in error("prepare", *arguments(raw, tmp_path / "data", option))
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


def test_killed_run_leaves_no_data_and_no_process(raw, tmp_path, error):
    write(raw / "train", ENGLISH * 4000, GERMAN * 4000)
    data, unfinished = tmp_path / "data", tmp_path / ".data.unfinished"
    for kill in (signal.SIGTERM, signal.SIGKILL):
        with open(raw / "log", "w") as log:  # with a pipe this test would wait for the workers
            process = subprocess.Popen(
                [sys.executable, "-m", "aiayn_plugin.cli", "prepare", *arguments(raw, data)],
                stderr=log,
                start_new_session=True,
            )
        wait_until((unfinished / "work").exists, process)
        if kill == signal.SIGKILL:
            assert "another command is writing" in error("prepare", *arguments(raw, data))
        os.kill(process.pid, kill)
        process.wait()
        stderr = (raw / "log").read_text()
        assert not data.exists()
        if kill == signal.SIGTERM:
            assert process.returncode == 130 and not unfinished.exists()
            assert stderr.endswith("aiayn: interrupted; no data was written\n")
            assert "Traceback" not in stderr
        wait_until(lambda: not alive(process.pid))  # noqa: B023


def test_sentences_without_spaces_are_not_compared_in_length(run, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    for split in ("train", "valid"):
        (raw / f"{split}.en").write_text(f"{'the dog sleeps ' * 7}\n" * 20, "utf-8")
        (raw / f"{split}.zh_CN").write_text("那只狗正在睡觉\n" * 20, "utf-8")
    prefixes = [f"--{split}pref={raw / split}" for split in ("train", "valid")]
    command = ["aiayn", "prepare", "-s", "en", "-t", "zh_CN", *prefixes, "--merges=9"]
    assert "20 of 20 kept" in run(*command, "--destdir", tmp_path / "data").stderr
    log = run(*command, "--destdir", tmp_path / "short", "--max-ratio", "9")
    assert log.returncode == 1
