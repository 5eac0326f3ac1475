"""`preprocess/wmt14.py` against a miniature of the public files, whole and broken in every way."""

import contextlib
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import download
import pytest
import wmt14
from corpora import load_pair
from fairseq.data import Dictionary, data_utils
from mirror import ODD, content, pack, serve

from aiayn_plugin.errors import TextError
from aiayn_plugin.lines import clean_line
from aiayn_plugin.text import TextPipeline

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "preprocess" / "wmt14.yaml"
EUROPARL = "wmt13/training-parallel-europarl-v7.tgz"


@pytest.fixture(scope="module")
def server():
    with serve(pairs=60) as mirror:
        yield mirror


@pytest.fixture
def mirror(server):
    """The server without faults, and with the files it began with."""
    server.faults.clear()
    server.requests.clear()
    before = dict(server.files)
    yield server
    server.files = before


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(download, "PAUSES", (0.0, 0.0))


def arguments(pair, dest, table, *more):
    return [pair, "--dest", str(dest), "--table", str(table), "--vocabulary=400", *more]


def command(*args):
    return [sys.executable, str(ROOT / "preprocess" / "wmt14.py"), *args]


@pytest.fixture(scope="module")
def whole(server, tmp_path_factory):
    """For each pair, one undisturbed run of the command: its directory and what it said."""
    server.faults.clear()
    folder = tmp_path_factory.mktemp("whole")
    table = server.table(folder / "table.yaml")
    runs = {}
    for pair in ("en-de", "en-fr"):
        args = command(*arguments(pair, folder / pair, table))
        done = subprocess.run(args, capture_output=True, text=True, cwd=folder)
        assert done.returncode == 0, done.stderr
        runs[pair] = folder / pair, done
    assert {path.name for path in folder.iterdir()} == {"table.yaml", *runs}
    return runs


def raw(folder):
    """Return the bytes of the text taken out of the archives, and what each was made of."""
    return {path: text for path, text in content(folder / "work").items()
            if path.parts[0].startswith("raw.")}  # fmt: skip


def error(capsys, *args):
    """Run the command, which must fail with a message, and return that."""
    capsys.readouterr()
    assert wmt14.main(list(args)) == 1
    stderr = capsys.readouterr().err
    assert stderr.count("wmt14.py: error: ") == 1 and "Traceback" not in stderr
    return stderr.partition("wmt14.py: error: ")[2].strip()


def read(pair, dest, table):
    """Do what the command does up to the text of the corpora."""
    dest.mkdir(exist_ok=True)
    with wmt14.start_workers(1) as workers:
        return wmt14.read(load_pair(table, pair), dest, table.parent, workers)


# ---- A whole run


@pytest.mark.parametrize("pair", ["en-de", "en-fr"])
def test_data_holds_the_pieces_of_each_pair_that_was_kept(whole, pair):
    folder, done = whole[pair]
    data = folder / "data"
    langs = pair.split("-")
    pipeline = TextPipeline.load(data)
    texts = read(pair, folder, folder.parent / "table.yaml")
    kept = []
    for text in texts["train"]:
        sides = [file.read_bytes().split(b"\n")[:-1] for file in text.files]
        for lines in zip(*sides, strict=True):
            with_pieces = [
                pipeline.encode(line.decode("utf-8", "replace"), lang)
                for line, lang in zip(lines, langs, strict=True)
            ]
            sizes = sorted(len(pieces.split()) for pieces in with_pieces)
            if b"\xff" not in lines[0] and sizes[0] and sizes[1] <= min(250, 1.5 * sizes[0]):
                kept.append(with_pieces)
    corpora = len(texts["train"])
    assert len(kept) > 55 * corpora
    assert "q" in kept[-1][0] and "q" in kept[-1][1]  # cleaned by its pieces, not its words
    unknown = Dictionary.load(str(data / "dict.en.txt")).unk_string()
    for side, lang in enumerate(langs):
        dictionary = Dictionary.load(str(data / f"dict.{lang}.txt"))
        dataset = data_utils.load_indexed_dataset(str(data / f"train.{pair}.{lang}"), dictionary)
        pieces = [[piece if piece in dictionary else unknown for piece in line[side].split()]
                  for line in kept]  # fmt: skip
        wanted = [" ".join(line) for line in pieces]
        assert [dictionary.string(sentence) for sentence in dataset] == wanted
        assert abs(len(dictionary) - 400) < 60 if pair == "en-de" else len(dictionary) <= 403
    total = (60 + len(ODD) + 1) * corpora
    assert f"training pairs: {len(kept)} of {total} kept; dropped: " in done.stderr
    for reason in ("not UTF-8", "too long", "ratio"):
        assert f"{corpora} {reason}" in done.stderr


def test_test_sets_are_whole_and_their_references_raw(whole):
    folder, done = whole["en-de"]
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
    assert done.stderr.count("verified by its published sha256") == 5
    assert f"data is in {folder}/data; next: fairseq-train {folder}/data" in done.stdout


def test_a_second_run_changes_nothing_and_asks_nobody(whole, mirror, capsys):
    folder, _ = whole["en-de"]
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    table = mirror.table(folder.parent / "table.yaml")
    for name in ("download", "work"):  # as one may who is short of disk
        (folder / name).rename(folder.parent / name)
    try:
        assert wmt14.main(arguments("en-de", folder, table)) == 0
        assert "is up to date" in capsys.readouterr().out
        assert not mirror.requests and not (folder / "download").exists()
    finally:
        for name in ("download", "work"):
            (folder.parent / name).rename(folder / name)
    assert wmt14.main(arguments("en-de", folder, table)) == 0
    after = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    del before[folder / wmt14.LOCK], after[folder / wmt14.LOCK]
    assert after == before and not mirror.requests


def test_other_settings_use_the_stages_that_stay_and_spare_finished_data(
    whole, mirror, tmp_path, capsys
):
    folder = shutil.copytree(whole["en-de"][0], tmp_path / "dest", symlinks=True)
    table = mirror.table(tmp_path / "table.yaml")
    before = content(folder / "data")
    args = ["en-de", "--dest", str(folder), "--table", str(table)]
    (folder / "data" / "train.en-de.en.bin").rename(tmp_path / "bin")
    assert "lacks train.en-de.en.bin" in error(capsys, *args, "--vocabulary=400")
    (tmp_path / "bin").rename(folder / "data" / "train.en-de.en.bin")
    line = error(capsys, *args, "--vocabulary=300")
    assert "belongs to other settings (vocabulary)" in line and "--dest" in line
    assert content(folder / "data") == before
    shutil.rmtree(folder / "data")
    assert wmt14.main([*args, "--vocabulary=300"]) == 0
    stderr = capsys.readouterr().err
    assert "tokenised.commoncrawl: done before" in stderr and "learning 300" in stderr
    assert not mirror.requests


def test_a_corpus_of_ones_own_can_be_named_in_the_table(mirror, tmp_path):
    for lang in ("en", "de"):
        (tmp_path / f"mine.{lang}").write_text(f"hello {lang}\n" * 30)

    def add(table):
        table["pairs"]["en-de"]["train"] = [{"name": "mine", "en": "mine.en", "de": "mine.de"}]

    texts = read("en-de", tmp_path / "dest", mirror.table(tmp_path / "table.yaml", add))
    assert [text.name for text in texts["train"]] == ["mine"]
    assert texts["train"][0].files == (tmp_path / "mine.en", tmp_path / "mine.de")
    assert texts["train"][0].lines == 30


# ---- Downloads


@pytest.mark.parametrize("fault", ["cut", "no ranges", "missing", "wrong"])
def test_text_is_the_same_after_a_fault_of_the_server(whole, mirror, tmp_path, fault):
    mirror.faults[EUROPARL] = fault
    read("en-de", tmp_path / "dest", mirror.table(tmp_path / "table.yaml"))
    assert raw(tmp_path / "dest") == raw(whole["en-de"][0])
    ranges = [wanted for path, wanted in mirror.requests if path == EUROPARL]
    size = len(mirror.files[EUROPARL])
    if fault == "cut":
        rest, asked = size, [None]
        for _ in range(3):
            rest -= rest // 2
            asked.append(f"bytes={size - rest}-")
        assert ranges == asked
    if fault == "no ranges":
        assert ranges == [None, f"bytes={size // 2}-"]
    second = [path for path, _ in mirror.requests if path.startswith("second/")]
    assert second == ([f"second/{EUROPARL}"] if fault in ("missing", "wrong") else [])
    assert {path.name for path in tmp_path.iterdir()} == {"dest", "table.yaml"}


def test_what_cannot_be_had_is_listed_and_can_be_given_by_hand(mirror, tmp_path, capsys):
    table = mirror.table(tmp_path / "table.yaml")
    crawl = "wmt13/training-parallel-commoncrawl.tgz"
    mirror.faults |= {path: "missing" for path in (EUROPARL, f"second/{EUROPARL}", crawl)}
    mirror.faults[f"second/{crawl}"] = "wrong"
    message = error(capsys, *arguments("en-de", tmp_path / "dest", table))
    first, second = message.split("\n")
    path = tmp_path / "dest" / "download" / "training-parallel-europarl-v7.tgz"
    assert first.startswith("cannot get training-parallel-europarl-v7.tgz: ")
    assert first.count("HTTP 404") == 2 and f"put the file at {path} by hand" in first
    assert second.count("HTTP 404") == 1 and "has the sha256" in second
    path.write_bytes(b"another")
    assert "has 7 bytes" in error(capsys, *arguments("en-de", tmp_path / "dest", table))
    path.write_bytes(mirror.files[EUROPARL])
    del mirror.faults[crawl]
    assert len(read("en-de", tmp_path / "dest", table)["train"]) == 3


def test_checksum_nobody_published_is_recorded_and_enforced(mirror, tmp_path, capsys):
    def forget(table):
        for known in table["archives"].values():
            del known["sha256"], known["size"]

    table = mirror.table(tmp_path / "table.yaml", forget)
    texts = read("en-de", tmp_path / "dest", table)
    assert "no checksum is published" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "dest" / "work")
    shutil.copytree(tmp_path / "dest" / "download", tmp_path / "kept")
    (tmp_path / "dest" / "download" / "training-parallel-europarl-v7.tgz").unlink()
    assert read("en-de", tmp_path / "dest", table) == texts
    assert "recorded when it was first fetched" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "dest" / "work")
    (tmp_path / "dest" / "download" / "training-parallel-europarl-v7.tgz").unlink()
    mirror.files[EUROPARL] = mirror.files[EUROPARL][:-1] + b"?"
    with pytest.raises(TextError, match="cannot get training-parallel-europarl-v7.tgz.*sha256"):
        read("en-de", tmp_path / "dest", table)


def test_nothing_is_fetched_that_the_disk_cannot_hold(mirror, tmp_path, capsys):
    def huge(table):
        table["archives"]["training-parallel-europarl-v7.tgz"]["size"] = 10**18

    table = mirror.table(tmp_path / "table.yaml", huge)
    line = error(capsys, *arguments("en-de", tmp_path / "dest", table))
    assert "1000000000.0 GB to fetch" in line and not mirror.requests


# ---- Broken archives


def test_archive_cut_short_can_be_had_again(whole, mirror, tmp_path, capsys):
    def forget(table):
        for known in table["archives"].values():
            del known["sha256"], known["size"]

    table = mirror.table(tmp_path / "table.yaml", forget)
    sound = mirror.files[EUROPARL]
    mirror.files[EUROPARL] = sound[: len(sound) // 2]
    line = error(capsys, *arguments("en-de", tmp_path / "dest", table))
    assert "training-parallel-europarl-v7.tgz: broken or cut short" in line
    assert "training-parallel-europarl-v7.tgz.broken now: start again" in line
    mirror.files[EUROPARL] = sound
    read("en-de", tmp_path / "dest", table)
    assert raw(tmp_path / "dest") == raw(whole["en-de"][0])


def test_unequal_numbers_of_lines_are_reported(mirror, tmp_path, capsys):
    names = [f"training/europarl-v7.de-en.{lang}" for lang in ("en", "de")]
    texts = b"a\nb\x0c\xe2\x80\xa8\n", b"a\nb\nc\n"
    mirror.files[EUROPARL] = pack(dict(zip(names, texts, strict=True)), compressed=True)
    table = mirror.table(tmp_path / "table.yaml")
    line = error(capsys, *arguments("en-de", tmp_path / "dest", table))
    assert f"europarl-v7: {names[0]} has 2 lines, but {names[1]} has 3" in line
    assert not (tmp_path / "dest" / "work" / "raw.europarl-v7").exists()


# ---- Stops


def test_full_disk_is_one_line_and_the_rerun_is_the_same(whole, mirror, tmp_path):
    table = mirror.table(tmp_path / "table.yaml")
    args = command(*arguments("en-de", tmp_path / "dest", table))
    limits = (1000, 4000, 12_000)  # in a download, in an archive's text, in fairseq-preprocess
    for limit in limits:
        stopped = subprocess.run(
            args,
            capture_output=True,
            text=True,
            preexec_fn=lambda size=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
        )
        assert stopped.returncode == 1 and "Traceback" not in stopped.stderr, stopped.stderr
        assert "too large" in stopped.stderr or "fairseq-preprocess failed" in stopped.stderr
    assert subprocess.run(args, capture_output=True).returncode == 0
    assert content(tmp_path / "dest" / "data") == content(whole["en-de"][0] / "data")
    assert {path.name for path in tmp_path.iterdir()} == {"dest", "table.yaml"}


def test_directory_of_someone_else_is_left_alone(mirror, tmp_path, capsys):
    (tmp_path / "precious").write_text("x")
    args = arguments("en-de", tmp_path, TABLE)
    assert "not made by wmt14.py" in error(capsys, *args)
    assert content(tmp_path) == {Path("precious"): b"x"}


def running(folder):
    """Return the processes that were started with a path in the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found += [path.parent.name] if os.fsencode(folder) in path.read_bytes() else []
    return found


def test_fairseq_preprocess_ends_with_the_run_that_started_it(whole, mirror, tmp_path):
    folder = shutil.copytree(whole["en-de"][0], tmp_path / "dest")
    shutil.rmtree(folder / "data")
    args = command(*arguments("en-de", folder, mirror.table(tmp_path / "table.yaml")))
    with subprocess.Popen(args, stderr=subprocess.PIPE) as process:
        while b"fairseq-preprocess" not in process.stderr.readline():
            assert process.poll() is None
        time.sleep(1)
        assert len(running(folder)) > 1
        process.kill()
    deadline = time.monotonic() + 3
    while running(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running(folder)


@pytest.mark.long
def test_killed_at_any_moment_it_goes_on_to_the_same_bytes(whole, mirror, tmp_path):
    rng = random.Random(0)
    table = mirror.table(tmp_path / "table.yaml")
    reference = content(whole["en-de"][0] / "data"), content(whole["en-de"][0] / "work")
    seconds = 14.0  # about what a run takes
    kills = 0
    while kills < 20:
        dest = tmp_path / f"dest{kills // 4}"  # four in each, at its start and in later runs
        args = command(*arguments("en-de", dest, table))
        process = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(rng.uniform(0.5, seconds))
            assert process.returncode == 0
            shutil.rmtree(dest / "data")  # it was done before the kill: its last part once more
            continue
        process.kill()
        process.wait()
        kills += 1
    for dest in tmp_path.glob("dest?"):
        done = subprocess.run(
            command(*arguments("en-de", dest, table)), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert (content(dest / "data"), content(dest / "work")) == reference
        files = {"data", "work", "download", wmt14.LOCK, wmt14.RECORD}
        assert {path.name for path in dest.iterdir()} == files
    assert len(list(tmp_path.iterdir())) == 6
    assert not running(tmp_path)
