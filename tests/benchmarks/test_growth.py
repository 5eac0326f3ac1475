"""`aiayn benchmark growth`: every case is measured and drawn."""

import json

import pytest

from aiayn_plugin.cli import main


@pytest.mark.long
def test_training_and_search_are_measured_and_drawn(tmp_path, capsys):
    out, plot = tmp_path / "results.json", tmp_path / "growth.svg"
    main(
        [
            *("benchmark", "growth", "--cpu", "--runs", "1", "--lengths", "5", "30"),
            *("--max-tokens", "20", "60", "--beams", "1", "2", "--sentences", "1", "3"),
            *("--output", str(out), "--plot", str(plot)),
        ]
    )
    results = json.loads(out.read_text())
    measured = [(row["length"], row["batch"]) for row in results["training"]]
    assert measured == [(5, 20), (5, 60), (30, 60)]  # no sentence of 30 tokens fits 20
    assert all(row["rate"] > 0 for row in results["training"])
    small, large, _ = (row["bytes"] for row in results["training"])
    assert small < large  # batches of 4 and of 12 sentences
    cases = {(row["sentences"], row["length"], row["beam"]) for row in results["search"]}
    assert cases == {(n, *case) for n in (1, 3) for case in ((30, 1), (30, 2), (5, 4), (30, 4))}
    assert all(row["seconds"] > 0 for row in results["search"])
    text = plot.read_text()
    for label in ("30 tokens per sentence", "3 sentences at once", "Translating with beam 4"):
        assert label in text
    assert "sentences/s" in capsys.readouterr().out


def test_numbers_below_one_are_refused(error):
    assert error("benchmark", "growth", "--beams", "0").startswith("--runs, --lengths, ")
