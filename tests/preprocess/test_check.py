"""`--check DIR` of prepare and wmt14: every changed file is listed."""

import os
import shutil

import pytest

from aiayn_plugin.cli import main
from aiayn_plugin.text.manifest import MANIFEST, read_manifest


def test_changed_files_are_listed(corpus, tmp_path, capsys, error):
    data = shutil.copytree(corpus, tmp_path / "data")
    with pytest.raises(SystemExit, match="^0$"):
        main(["wmt14", "--check", str(tmp_path)])
    out, err = capsys.readouterr()
    assert f"{data}: all {len(read_manifest(data))} files are unchanged" in out and not err
    with open(data / "train.en-de.de.bin", "r+b") as file:  # one bit, same size
        first = file.read(1)
        file.seek(0)
        file.write(bytes([first[0] ^ 1]))
    os.remove(data / "text.json")
    message = error("prepare", "--check", data)
    assert message.startswith(f"2 of the {len(read_manifest(data))} files")
    assert sorted(capsys.readouterr().err.splitlines()) == [
        f"{data}/text.json is missing, but listed in {MANIFEST}",
        f"{data}/train.en-de.de.bin has changed: its checksum is different",
    ]
    (data / MANIFEST).unlink()
    assert f"{data} has no {MANIFEST}" in error("prepare", "--check", data)
    nowhere = data / "elsewhere"
    assert error("prepare", "--check", nowhere) == f"{nowhere} is not a directory"
