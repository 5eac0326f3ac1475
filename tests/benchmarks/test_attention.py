"""`aiayn benchmark attention`: restricted attention's memory grows with n alone."""

import json

import pytest

from aiayn_plugin.cli import main


def test_restricted_attention_takes_memory_in_proportion_to_n(tmp_path, capsys):
    out = tmp_path / "found.json"
    main(["benchmark", "attention", "--neighbourhood", "16", "--lengths", "512", "1024",
          "--runs", "1", "--device", "cpu", "--output", str(out)])  # fmt: skip
    rows = {(row["n"], row["way"]): row for row in json.loads(out.read_text())["rows"]}
    for quantity in ("forward_bytes", "backward_bytes"):
        grown = {
            way: rows[1024, way][quantity] / rows[512, way][quantity]
            for way in ("restricted", "full, by steps")
        }
        assert grown["restricted"] == pytest.approx(2, rel=0.1)
        assert grown["full, by steps"] > 3
    assert all(row["forward_s"] > 0 and row["backward_s"] > 0 for row in rows.values())
    assert "full / restricted, r = 16" in capsys.readouterr().out


@pytest.mark.parametrize("flags", [["--neighbourhood", "0"], ["--runs", "0"], ["--lengths", "0"]])
def test_bad_settings_are_refused(flags):
    with pytest.raises(SystemExit, match="at least 1"):
        main(["benchmark", "attention", *flags])
