"""Whole commands on broken data: one line, exit status 1, no stack trace, nothing silent."""

import shutil
from collections import Counter

import pytest
from breakages import DICTIONARIES, SPLIT
from commands import SMALL, last_line

from aiayn_plugin.text.manifest import MANIFEST

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
    """About 40 ways to break data by 4 commands, with checksums and without."""
    data, ends = tmp_path / "data", Counter()
    ways = {"nothing": lambda data: None, **DICTIONARIES}
    ways |= SPLIT if command != "fairseq-interactive" else {}
    if manifest or command != "fairseq-interactive":  # test_dictionary.py has the others
        kept = ("other order", "not UTF-8")
        ways = {way: how for way, how in ways.items() if "dict.*" not in way or way.endswith(kept)}
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
