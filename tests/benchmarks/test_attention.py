"""`aiayn benchmark attention`: Table 1, measured; restricted attention needs memory of n alone."""

import json

import pytest
import torch

from aiayn_plugin.benchmarks.attention import LAYERS, make, output
from aiayn_plugin.cli import main


def test_restricted_attention_takes_memory_in_proportion_to_n(tmp_path, capsys):
    out = tmp_path / "found.json"
    main(
        [
            "benchmark",
            "attention",
            "--layers",
            "full",
            "restricted",
            "by-steps",
            "--runs",
            "1",
            "--neighbourhood",
            "16",
            "--lengths",
            "1024",
            "2048",
            "4096",
            "--device",
            "cpu",
            "--output",
            str(out),
        ]
    )
    rows = {(row["n"], row["layer"]): row for row in json.loads(out.read_text())["rows"]}
    assert len(rows) == 9
    for quantity in ("forward_bytes", "backward_bytes"):
        grown = {}  # from 2,048 to 4,096 over from 1,024: so the weights' gradients do not count
        for way in ("restricted", "by-steps"):
            some, more, most = (rows[n, way][quantity] for n in (1024, 2048, 4096))
            grown[way] = (most - more) / (more - some)
        assert grown["restricted"] == pytest.approx(2, rel=0.1)
        assert grown["by-steps"] > 3
    assert all(row["forward_s"] > 0 and row["backward_s"] > 0 for row in rows.values())
    assert "full, by torch's fused attention, over restricted, r = 16" in capsys.readouterr().out


def test_every_layer_of_table_1_is_measured_and_drawn(tmp_path, capsys):
    out, plot = tmp_path / "found.json", tmp_path / "table1.svg"
    main(
        [
            "benchmark",
            "attention",
            "--lengths",
            "16",
            "32",
            "--runs",
            "2",
            "--kernel",
            "5",
            "--device",
            "cpu",
            "--output",
            str(out),
            "--plot",
            str(plot),
        ]
    )
    rows = json.loads(out.read_text())["rows"]
    assert [(row["n"], row["layer"]) for row in rows] == [
        (n, name) for n in (16, 32) for name in LAYERS
    ]
    assert all(row["forward_s"] > 0 and row["forward_bytes"] > 0 for row in rows)
    printed, drawn = capsys.readouterr().out, plot.read_text(encoding="utf-8")
    assert "Table 1; the last three columns at n = 32, d = 512, k = 5, r = 64" in printed
    for cell in ("O(n²·d)", "O(n·d²)", "O(k·n·d²)", "O(r·n·d)", "O(logₖ n)", "O(n/r)"):
        assert cell in printed and cell in drawn
    for text in ("k = 5", "r = 64", "forward and backward", "medians of 2"):
        assert text in drawn


def test_layers_keep_the_shape_and_see_what_they_should():
    """The kernel and the neighbourhood are centred, the LSTM looks back, the others see all."""
    seen = {
        "full": range(40),
        "by-steps": range(40),
        "recurrent": range(21),
        "convolutional": range(18, 23),
        "restricted": range(17, 25),
    }
    assert set(seen) == set(LAYERS)
    for name, positions in seen.items():
        x = torch.randn(1, 40, 512, requires_grad=True)
        y = output(name, make(name, r=8, k=5), x)
        assert y.shape == x.shape
        y[0, 20].sum().backward()
        assert x.grad[0].abs().sum(1).nonzero().flatten().tolist() == list(positions), name


def test_what_is_too_large_or_not_asked_for_is_left_out(tmp_path, capsys):
    plot = tmp_path / "table1.svg"
    main(
        [
            "benchmark",
            "attention",
            "--layers",
            "by-steps",
            "full",
            "--lengths",
            "16",
            "512",
            "--runs",
            "1",
            "--device",
            "cpu",
            "--max-gigabytes",
            "0.01",
            "--plot",
            str(plot),
        ]
    )
    measured = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert ["16", "by-steps"] in measured and ["16", "full"] in measured
    assert ["512", "by-steps"] not in measured and ["512", "full"] in measured
    assert ["16", "recurrent"] not in measured and "over restricted" not in str(measured)
    assert "recurrent" in plot.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "flags", [["--neighbourhood", "0"], ["--runs", "0"], ["--lengths", "0"], ["--kernel", "0"]]
)
def test_bad_settings_are_refused(flags):
    with pytest.raises(SystemExit, match="at least 1"):
        main(["benchmark", "attention", *flags])
