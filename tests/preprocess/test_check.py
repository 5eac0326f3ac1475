"""`--check DIR` of prepare and wmt14: every changed file is listed."""

import os
import shutil

import pytest

from aiayn_plugin.text.manifest import MANIFEST, read_manifest


@pytest.fixture
def check(run):
    """`check(command, directory)` returns the exit status and what the command printed."""

    def check(command, directory):
        done = run("aiayn", command, "--check", directory)
        return done.returncode, done.stdout, done.stderr

    return check


@pytest.mark.parametrize("command", ["prepare", "wmt14"])
def test_changed_files_are_listed(corpus, tmp_path, check, command):
    data = shutil.copytree(corpus, tmp_path / "data")
    status, out, err = check(command, tmp_path if command == "wmt14" else data)
    assert (status, err) == (0, "")
    assert f"{data}: all {len(read_manifest(data))} files are unchanged" in out
    with open(data / "train.en-de.de.bin", "r+b") as file:  # one bit, same size
        first = file.read(1)
        file.seek(0)
        file.write(bytes([first[0] ^ 1]))
    os.remove(data / "text.json")
    status, out, err = check(command, data)
    assert (status, out) == (1, "")
    assert sorted(err.splitlines())[:2] == [
        f"{data}/text.json is missing, but listed in {MANIFEST}",
        f"{data}/train.en-de.de.bin has changed: its checksum is different",
    ]
    assert f"error: 2 of the {len(read_manifest(data))} files" in err


def test_missing_checksums_are_one_line(corpus, tmp_path, check):
    data = shutil.copytree(corpus, tmp_path / "data")
    (data / MANIFEST).unlink()
    status, _, err = check("prepare", data)
    assert status == 1 and err.count("\n") == 1 and f"{data} has no {MANIFEST}" in err
    status, _, err = check("prepare", data / "elsewhere")
    assert status == 1 and err.endswith(f"error: {data}/elsewhere is not a directory\n")
