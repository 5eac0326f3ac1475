"""Stages: complete or absent, and repeated only if necessary."""

from pathlib import Path

import pytest
from mirror import content

from aiayn_plugin.corpus.stages import make_stage


def test_stage_is_repeated_only_if_necessary(tmp_path):
    calls = []

    def make(folder):
        calls.append(folder)
        (folder / "file").write_text(str(len(calls)))
        return {"calls": len(calls)}

    assert make_stage(tmp_path, "x", [1], make).result == {"calls": 1}
    assert make_stage(tmp_path, "x", [1], make).result == {"calls": 1}
    assert make_stage(tmp_path, "x", [2], make).result == {"calls": 2}
    assert content(tmp_path).keys() == {Path("x/file"), Path("x/stage.json")}

    def fail(folder):
        (folder / "file").write_text("half")
        raise OSError("no room")

    with pytest.raises(OSError):
        make_stage(tmp_path, "x", [3], fail)
    assert (tmp_path / "x" / "file").read_text() == "2"
    (tmp_path / "x" / "stage.json").write_text("{")
    assert make_stage(tmp_path, "x", [2], make).result == {"calls": 3}
