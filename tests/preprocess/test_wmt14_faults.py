"""`aiayn wmt14` with a miniature of the public files: faults and interruptions."""

import random
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import after, assert_ends, killed, running, wait_until
from mirror import EUROPARL, content, pack, wmt14_arguments

from aiayn_plugin.cli.wmt14 import LOCK
from aiayn_plugin.corpus.table import WMT14


def command(*args):
    return [sys.executable, "-m", "aiayn_plugin.cli", "wmt14", *args]


# ---- Downloads


def test_unavailable_files_are_listed_and_can_be_downloaded_by_hand(mirror, tmp_path, error, read):
    table = mirror.table(tmp_path / "table.yaml")
    crawl = "wmt13/training-parallel-commoncrawl.tgz"
    args = wmt14_arguments("en-de", tmp_path / "dest", table)
    mirror.faults |= {path: "missing" for path in (EUROPARL, f"second/{EUROPARL}", crawl)}
    mirror.faults[f"second/{crawl}"] = "wrong"
    first, second = error("wmt14", *args, lines=2).split("\n")
    path = tmp_path / "dest" / "download" / "training-parallel-europarl-v7.tgz"
    assert first.startswith("cannot download training-parallel-europarl-v7.tgz: ")
    assert first.count("error: 404") == 2 and f"by hand and save it as {path}" in first
    assert second.count("error: 404") == 1 and "has the sha256" in second
    path.write_bytes(b"another")
    assert "has 7 bytes" in error("wmt14", *args)
    path.write_bytes(mirror.files[EUROPARL])
    del mirror.faults[crawl]
    assert len(read("en-de", tmp_path / "dest", table)["train"]) == 3


def test_nothing_is_fetched_if_the_disk_is_too_small(mirror, tmp_path, error):
    def huge(table):
        table["archives"]["training-parallel-europarl-v7.tgz"]["size"] = 10**18

    table = mirror.table(tmp_path / "table.yaml", huge)
    line = error("wmt14", *wmt14_arguments("en-de", tmp_path / "dest", table))
    assert "1000000000.0 GB to download" in line and not mirror.requests


# ---- Unusable texts


def test_unusable_texts_are_reported(mirror, tmp_path, error):
    names = [f"training/europarl-v7.de-en.{lang}" for lang in ("en", "de")]
    texts = b"a\nb\x0c\xe2\x80\xa8\n", b"a\nb\nc\n"
    mirror.files[EUROPARL] = pack(dict(zip(names, texts, strict=True)), compressed=True)
    table = mirror.table(tmp_path / "table.yaml")
    line = error("wmt14", *wmt14_arguments("en-de", tmp_path / "dest", table))
    assert f"europarl-v7: {names[0]} has 2 lines, but {names[1]} has 3" in line
    assert not (tmp_path / "dest" / "work" / "raw.europarl-v7").exists()


# ---- Stops


def test_full_disk_gives_one_line_and_the_next_run_the_same_bytes(en_de, mirror, tmp_path):
    table = mirror.table(tmp_path / "table.yaml")
    args = command(*wmt14_arguments("en-de", tmp_path / "dest", table))
    # Maximum file sizes: the download fails, then the extraction, then the binary files.
    limits = (1000, 4000, 12_000)
    for limit in limits:
        stopped = subprocess.run(
            args,
            capture_output=True,
            text=True,
            preexec_fn=lambda size=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
        )
        assert stopped.returncode == 1 and "Traceback" not in stopped.stderr, stopped.stderr
        assert "too large" in stopped.stderr
    assert subprocess.run(args, capture_output=True).returncode == 0
    assert content(tmp_path / "dest" / "data") == content(en_de[0] / "data")
    assert {path.name for path in tmp_path.iterdir()} == {"dest", "table.yaml"}


def test_directory_not_made_by_wmt14_is_left_alone(mirror, tmp_path, error):
    (tmp_path / "precious").write_text("x")
    args = wmt14_arguments("en-de", tmp_path, WMT14)
    assert "not made by aiayn wmt14" in error("wmt14", *args)
    assert content(tmp_path) == {Path("precious"): b"x"}


def test_workers_end_with_a_killed_command(en_de, mirror, tmp_path):
    folder = shutil.copytree(en_de[0], tmp_path / "dest")
    shutil.rmtree(folder / "data")
    args = command(*wmt14_arguments("en-de", folder, mirror.table(tmp_path / "table.yaml")))
    with subprocess.Popen(args, stderr=subprocess.PIPE) as process:
        while b"writing the dictionary" not in process.stderr.readline():
            assert process.poll() is None
        wait_until(lambda: len(running(folder)) > 1, process)  # with a worker
        process.kill()
    assert_ends(folder)


@pytest.mark.long
def test_killed_runs_resume_to_the_same_bytes(en_de, mirror, tmp_path):
    rng = random.Random(0)
    table = mirror.table(tmp_path / "table.yaml")
    reference = content(en_de[0] / "data"), content(en_de[0] / "work")
    seconds = 14.0  # approximate duration of a run
    kills = 0
    while kills < 20:
        dest = tmp_path / f"dest{kills // 4}"  # four kills of each, the first of its first run
        args = command(*wmt14_arguments("en-de", dest, table))
        if killed(args, tmp_path / "log", after(rng.uniform(0.5, seconds))):
            kills += 1
        else:
            shutil.rmtree(dest / "data")  # the command had ended: make the data again
    for dest in tmp_path.glob("dest?"):
        done = subprocess.run(
            command(*wmt14_arguments("en-de", dest, table)), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert (content(dest / "data"), content(dest / "work")) == reference
        files = {"data", "work", "download", LOCK}
        assert {path.name for path in dest.iterdir()} == files
    assert len(list(tmp_path.iterdir())) == 7
    assert not running(tmp_path)
