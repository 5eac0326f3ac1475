"""Whole commands on broken data: one line, exit status 1, no stack trace, nothing silent."""

import shutil
from collections import Counter

import pytest
from breakages import DICTIONARIES, SPLIT, remove
from commands import SMALL, last_line

from aiayn_plugin.errors import InputError
from aiayn_plugin.inference import Translator
from aiayn_plugin.text.manifest import MANIFEST


@pytest.fixture
def data(corpus, tmp_path):
    return shutil.copytree(corpus, tmp_path / "data")


def test_generating_with_a_changed_dictionary(run, data, model_dir):
    (data / "dict.de.txt").write_bytes(b"".join(sorted((data / "dict.de.txt").open("rb"))))
    log = run(
        *("fairseq-generate", data, "--user-dir", "aiayn_plugin", "--cpu"),
        *("--path", model_dir / "model.pt"),
    )
    assert last_line(log).startswith(
        f"fairseq-generate: error: {data}/dict.de.txt has changed: its checksum is different; "
    )


@pytest.mark.parametrize("name", ["dict.de.txt", "codes.bpe", "text.json"])
def test_a_model_directory_that_lacks_a_file(model_dir, tmp_path, name):
    shutil.copytree(model_dir, tmp_path / "model")
    (tmp_path / "model" / "data" / MANIFEST).unlink()
    remove(name)(tmp_path / "model" / "data")
    with pytest.raises(InputError, match=f"data/{name} is missing: give a directory made by"):
        Translator.load(tmp_path / "model", "cpu")


#: Arguments with which each command ends soon if nothing is broken.
COMMANDS = {
    "fairseq-train": [
        *(*SMALL, "--max-update", "1", "--no-save"),
        *("--train-subset", "test", "--disable-validation"),
    ],
    "fairseq-generate": ["--max-len-b", "4", "--beam", "2", "--cpu"],
    "fairseq-interactive": ["--max-len-b", "4", "--cpu"],
    "fairseq-validate": ["--valid-subset", "test", "--max-tokens", "2000", "--cpu"],
}


@pytest.mark.long
@pytest.mark.parametrize("manifest", [True, False])
@pytest.mark.parametrize("command", COMMANDS)
def test_the_table_of_broken_data(run, corpus, model_dir, tmp_path, command, manifest):
    """About 70 ways to break data by 4 commands, with checksums and without."""
    data, ends = tmp_path / "data", Counter()
    ways = {"nothing": lambda data: None, **DICTIONARIES}
    ways |= SPLIT if command != "fairseq-interactive" else {}
    path = ["--path", model_dir / "model.pt"] if command != "fairseq-train" else []
    options = COMMANDS[command]
    if command == "fairseq-interactive":
        (tmp_path / "input").write_text("March 3\n")
        options = [*options, "--input", "input"]
    for way, spoil in ways.items():
        shutil.copytree(corpus, data)
        if not manifest:
            (data / MANIFEST).unlink()
        spoil(data)
        log = run(command, data, "--user-dir", "aiayn_plugin", *path, *options, cwd=tmp_path)
        shutil.rmtree(data) if data.is_dir() else data.unlink(missing_ok=True)
        text = log.stdout + log.stderr
        if log.returncode == 0:  # whole, or taken with a warning
            warned = {
                "target: missing": "no references",
                "dict.*.txt: other order": "no longer match",
            }
            assert way == "nothing" or not manifest and warned[way] in text, (way, text)
            ends[f"warned: {way}" if way != "nothing" else "whole"] += 1
        else:
            assert last_line(log).startswith(f"{command}: error: "), (way, log.stderr)
            ends["one line"] += 1
    print(command, "manifest" if manifest else "no manifest", dict(ends))
    assert ends["whole"] == 1 and ends["one line"] >= len(ways) - 2
