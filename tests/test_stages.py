"""Stages: whole or not there, and made again only for a reason."""

from pathlib import Path

import pytest
from mirror import content
from stages import stage


def test_stage_is_made_again_only_for_another_reason(tmp_path):
    made = []

    def make(part):
        made.append(part)
        (part / "file").write_text(str(len(made)))
        return {"made": len(made)}

    assert stage(tmp_path, "x", [1], make).result == {"made": 1}
    assert stage(tmp_path, "x", [1], make).result == {"made": 1}
    assert stage(tmp_path, "x", [2], make).result == {"made": 2}
    assert content(tmp_path).keys() == {Path("x/file"), Path("x/stage.json")}

    def fail(part):
        (part / "file").write_text("half")
        raise OSError("no room")

    with pytest.raises(OSError):
        stage(tmp_path, "x", [3], fail)
    assert (tmp_path / "x" / "file").read_text() == "2"
    (tmp_path / "x" / "stage.json").write_text("{")
    assert stage(tmp_path, "x", [2], make).result == {"made": 3}
