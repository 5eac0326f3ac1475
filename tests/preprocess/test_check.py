"""`--check DIR` of prepare.py and wmt14.py: every changed file is listed."""

import os
import shutil

import prepare
import pytest
import wmt14

from aiayn_plugin.text.manifest import MANIFEST, read_manifest


def check(command, directory, capsys):
    """Return the exit status and what the command printed."""
    with pytest.raises(SystemExit) as end:
        command.main(["--check", str(directory)])
    return end.value.code, *capsys.readouterr()


@pytest.mark.parametrize("command", [prepare, wmt14])
def test_changed_files_are_listed(corpus, tmp_path, capsys, command):
    data = shutil.copytree(corpus, tmp_path / "data")
    status, out, err = check(command, tmp_path if command is wmt14 else data, capsys)
    assert (status, err) == (0, "")
    assert f"{data}: all {len(read_manifest(data))} files are unchanged" in out
    with open(data / "train.en-de.de.bin", "r+b") as file:  # one bit, same size
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


def test_missing_checksums_are_one_line(corpus, tmp_path, capsys):
    data = shutil.copytree(corpus, tmp_path / "data")
    (data / MANIFEST).unlink()
    status, _, err = check(prepare, data, capsys)
    assert status == 1 and err.count("\n") == 1 and f"{data} has no {MANIFEST}" in err
    status, _, err = check(prepare, data / "elsewhere", capsys)
    assert status == 1 and err.endswith(f"error: {data}/elsewhere is not a directory\n")
