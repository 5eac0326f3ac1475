"""`aiayn benchmark attention`: Table 1, measured; restricted attention needs memory linear in n."""

import json

import pytest
import torch

from aiayn_plugin.benchmarks.attention import LAYERS, apply_layer, build_layer
from aiayn_plugin.benchmarks.table1 import TABLE_1
from aiayn_plugin.cli import main


def benchmark(*options):
    main(["benchmark", "attention", "--device", "cpu", *map(str, options)])


def test_the_memory_of_restricted_attention_is_linear_in_n(tmp_path, capsys):
    out = tmp_path / "results.json"
    benchmark(
        *("--layers", "full", "restricted", "unfused", "--runs", 1, "--neighbourhood", 16),
        *("--lengths", 256, 512, 1024, "--output", out),
    )
    rows = {(row["n"], row["layer"]): row for row in json.loads(out.read_text())["rows"]}
    assert len(rows) == 9
    for quantity in ("forward_bytes", "training_bytes"):
        growth = {}  # of the differences, in which the weights' gradients cancel
        for layer in ("restricted", "unfused"):
            short, medium, long = (rows[n, layer][quantity] for n in (256, 512, 1024))
            growth[layer] = (long - medium) / (medium - short)
        assert growth["restricted"] == pytest.approx(2, rel=0.1)
        assert growth["unfused"] > 3
    assert all(row["forward_s"] > 0 and row["backward_s"] > 0 for row in rows.values())
    assert "by torch's fused attention, relative to restricted, r = 16" in capsys.readouterr().out


def test_every_layer_of_table_1_is_measured_and_drawn(tmp_path, capsys):
    out, plot = tmp_path / "results.json", tmp_path / "table1.svg"
    benchmark(
        *("--lengths", 16, 32, "--runs", 2, "--kernel", 5),
        *("--output", out, "--plot", plot),
    )
    rows = json.loads(out.read_text())["rows"]
    assert [(row["n"], row["layer"]) for row in rows] == [
        (n, name) for n in (16, 32) for name in LAYERS
    ]
    assert all(row["forward_s"] > 0 and row["forward_bytes"] > 0 for row in rows)
    printed, drawn = capsys.readouterr().out, plot.read_text(encoding="utf-8")
    for cell in ("O(n²·d)", "O(n·d²)", "O(k·n·d²)", "O(r·n·d)", "O(logₖ n)", "O(n/r)"):
        assert cell in printed and cell in drawn
    for text in ("k = 5", "r = 64", "forward and backward", "medians of 2"):
        assert text in drawn


def test_table_1_is_the_papers():
    assert [row[1:] for row in TABLE_1.values()] == [
        ("O(n²·d)", "O(1)", "O(1)"),
        ("O(n·d²)", "O(n)", "O(n)"),
        ("O(k·n·d²)", "O(1)", "O(logₖ n)"),
        ("O(r·n·d)", "O(1)", "O(n/r)"),
    ]


def test_layers_see_the_positions_of_table_1():
    """The kernel and the neighbourhood are centred, the LSTM looks back, attention sees all."""
    expected = {
        "full": range(40),
        "unfused": range(40),
        "recurrent": range(21),
        "convolutional": range(18, 23),
        "restricted": range(17, 25),
    }
    assert set(expected) == set(LAYERS)
    for name, positions in expected.items():
        x = torch.randn(1, 40, 512, requires_grad=True)
        y = apply_layer(name, build_layer(name, r=8, k=5), x)
        assert y.shape == x.shape
        y[0, 20].sum().backward()
        assert x.grad[0].abs().sum(1).nonzero().flatten().tolist() == list(positions), name


def test_measurements_above_the_memory_limit_are_skipped(tmp_path, capsys):
    plot = tmp_path / "table1.svg"
    benchmark(
        *("--layers", "unfused", "full", "--lengths", 16, 512, "--runs", 1),
        *("--max-gigabytes", 0.01, "--plot", plot),
    )
    output = capsys.readouterr().out
    measured = [line.split()[:2] for line in output.splitlines()]
    assert ["16", "unfused"] in measured and ["16", "full"] in measured
    assert ["512", "unfused"] not in measured and ["512", "full"] in measured
    assert ["16", "recurrent"] not in measured and "relative to restricted" not in output
    assert "recurrent" in plot.read_text(encoding="utf-8")


@pytest.mark.parametrize("option", ["--neighbourhood", "--runs", "--lengths", "--kernel"])
def test_sizes_below_1_are_rejected(error, option):
    assert "at least 1" in error("benchmark", "attention", option, 0)
