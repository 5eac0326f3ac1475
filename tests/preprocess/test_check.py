"""`--check DIR` of prepare.py and wmt14.py: each file that is not as it was made is named."""

import os
import shutil
import sys

import prepare
import pytest
import wmt14
from corpus.sources import OLD_RECORD, RECORD

from aiayn_plugin.text.manifest import MANIFEST, read_manifest


def check(command, directory, capsys):
    """Return the exit status and what the command printed."""
    with pytest.raises(SystemExit) as end:
        command.main(["--check", str(directory)])
    return end.value.code, *capsys.readouterr()


@pytest.mark.parametrize("command", [prepare, wmt14])
def test_all_files_are_compared(corpus, tmp_path, capsys, command):
    data = shutil.copytree(corpus, tmp_path / "data")
    status, out, err = check(command, tmp_path if command is wmt14 else data, capsys)
    assert (status, err) == (0, "")
    assert f"{data}: all {len(read_manifest(data))} files are as they were made" in out
    with open(data / "train.en-de.de.bin", "r+b") as file:  # one bit, in the same length
        first = file.read(1)
        file.seek(0)
        file.write(bytes([first[0] ^ 1]))
    os.remove(data / "text.json")
    status, out, err = check(command, data, capsys)
    assert (status, out) == (1, "")
    assert sorted(err.splitlines())[:2] == [
        f"{data}/text.json is missing, but listed in {MANIFEST}",
        f"{data}/train.en-de.de.bin has changed: its checksum is different",
    ]
    assert f"error: 2 of the {len(read_manifest(data))} files" in err


@pytest.mark.parametrize("name", [RECORD, OLD_RECORD])
def test_record_of_downloads_is_not_the_list_of_files(corpus, tmp_path, capsys, name):
    shutil.copytree(corpus, tmp_path / "data")
    (tmp_path / name).write_text('{"x.tgz": {"sha256": "00", "stat": [1, 2], "published": {}}}')
    status, out, err = check(wmt14, tmp_path, capsys)
    assert (status, err) == (0, "") and f"{tmp_path}/data: all " in out


def test_nothing_to_compare_with_is_one_line(corpus, tmp_path, capsys):
    data = shutil.copytree(corpus, tmp_path / "data")
    (data / MANIFEST).unlink()
    status, _, err = check(prepare, data, capsys)
    assert status == 1 and err.count("\n") == 1 and f"{data} has no {MANIFEST}" in err
    status, _, err = check(prepare, data / "elsewhere", capsys)
    assert status == 1 and err.endswith(f"error: {data}/elsewhere is no directory\n")


def test_small_data_needs_no_bar(corpus, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert check(prepare, corpus, capsys)[::2] == (0, "")
