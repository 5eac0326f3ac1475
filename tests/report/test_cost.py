"""§6.1: the floating-point operations of training, counted and as the paper estimates them."""

import pytest
import torch
from models import build
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from training_runs import Record, report_on, rows_of

from aiayn_plugin.paper import ModelSettings, Settings, get_settings
from aiayn_plugin.report.cost import counted_flops, device_rate, estimated_flops, forward_flops
from aiayn_plugin.report.paper_results import TABLE_2

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"d_k": 8, "d_v": 24},
        {"h": 1},
        {"N": 3, "d_ff": 7},
        {"positions": "learned"},
        {"d_model": 64, "h": 16},
    ],
)
def test_forward_passes_cost_what_torch_counts(changed):
    sizes = {"N": 2, "d_model": 16, "d_ff": 24, "h": 4, **changed}
    model = build(50, **sizes).eval()
    source, target = torch.randint(4, 50, (1, 17)), torch.randint(4, 50, (1, 11))
    # torch does not count fused attention on a CPU
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(source, None, target)
    assert counter.get_total_flops() == forward_flops(ModelSettings(**sizes), 50, 17, 11)


def test_restricted_attention_costs_in_proportion_to_length():
    restricted, full = ModelSettings(neighbourhood=8), ModelSettings()
    long = forward_flops(restricted, 100, 2000, 1) - forward_flops(restricted, 100, 1000, 1)
    longer = forward_flops(restricted, 100, 3000, 1) - forward_flops(restricted, 100, 2000, 1)
    assert long == longer
    assert forward_flops(full, 100, 3000, 1) - forward_flops(full, 100, 2000, 1) > longer
    decoder = [forward_flops(restricted, 100, 1, n) for n in (1000, 2000, 3000)]
    assert decoder[1] - decoder[0] == decoder[2] - decoder[1]
    assert forward_flops(restricted, 100, 8, 8) == forward_flops(full, 100, 8, 8)


def test_training_costs_three_forward_passes_per_pair():
    s = ModelSettings()
    assert counted_flops(s, 100, 7, 4, 40, 20) == 7 * 4 * 3 * forward_flops(s, 100, 10, 5)


def test_the_estimate_gives_the_papers_figures():
    """§5.2: 12 hours and 3.5 days on 8 P100; Table 2: 3.3e18 and 2.3e19."""
    assert device_rate("Tesla P100-SXM2-16GB") == 9.5
    assert [device_rate(f"Tesla {name}") for name in ("K80", "K40", "M40")] == [2.8, 3.7, 6.0]
    assert device_rate("2 × AMD EPYC") is None and device_rate("NVIDIA H100") is None
    assert [device_rate(f"Quadro {name}") for name in ("P1000", "M4000", "K4000")] == [None] * 3
    *_, base = TABLE_2["Transformer (base model)"]
    *_, big = TABLE_2["Transformer (big)"]
    assert estimated_flops(12 * 3600, 8, 9.5) == pytest.approx(base, rel=0.01)
    assert estimated_flops(3.5 * 86_400, 8, 9.5) == pytest.approx(big, rel=0.01)


def test_the_cost_of_a_run(tmp_path):
    """7 updates of 4 pairs; 60 source and 50 target tokens an update; vocabularies 1,000, 1,200."""
    record = Record("--arch", "aiayn_base", device="Tesla P100-X", devices=2)
    run = record.start().train(7, 3600).write(tmp_path / "run.jsonl")
    found = report_on(run)
    cost = found.data["runs"][0]["cost"]
    forward = forward_flops(get_settings("aiayn_base"), 1200, 15, 12.5)
    assert cost["counted"] == pytest.approx(7 * 4 * 3 * forward)
    assert cost["estimated"] == 3600 * 2 * 9.5e12
    cells = rows_of(found, "Cost")
    estimate = "FLOPs, estimated as in the paper (time × devices × sustained rate)"
    assert cells[estimate][""] == "6.8 · 10¹⁶: 3,600 s × 2 devices × 9.5 TFLOPS"
    data = rows_of(found, "Data")
    assert data["source tokens per update"][""] == "60"
    assert data["target tokens per update"][""] == "50"
    assert data["source vocabulary"][""] == "1,000" and data["target vocabulary"][""] == "1,200"
    given = rows_of(report_on(run, tflops=2.0), "Cost")
    assert given[estimate][""] == "1.4 · 10¹⁶: 3,600 s × 2 devices × 2.0 TFLOPS"


@pytest.mark.parametrize(
    ("facts", "start", "seconds", "reason"),
    [
        ({}, 0, 60, "the paper has no sustained rate for this device: give --tflops"),
        ({"device": None}, 0, 60, "the device is not recorded: give --tflops"),
        ({"device": "P100"}, 90_000, 60, "the first 90,000 updates are not recorded"),
        ({"device": "P100"}, 0, 0, "no time is recorded"),
    ],
)
def test_an_unknown_cost_has_its_reason(tmp_path, facts, start, seconds, reason):
    record = Record(**facts).start(start).train(start + 100, seconds)
    cost = report_on(record.write(tmp_path / "run.jsonl")).data["runs"][0]["cost"]
    assert cost["estimated"] == reason


def test_a_change_of_devices_has_no_estimate(tmp_path):
    record = Record(device="P100").start().train(10, 60)
    record.facts["devices"] = 1
    cost = report_on(record.start(10).train(20, 60).write(tmp_path / "run.jsonl"))
    assert cost.data["runs"][0]["cost"]["estimated"] == "the devices changed during the run"
    again = record.start().train(20, 60)  # from scratch, on these devices alone
    cost = report_on(again.write(tmp_path / "run.jsonl")).data["runs"][0]["cost"]
    assert cost["estimated"] == 60 * 9.5e12


def test_without_a_batch_plan_source_tokens_equal_target_tokens(tmp_path):
    run = Record(batches=None).start().train(7, 60).write(tmp_path / "run.jsonl")
    found = report_on(run)
    sizes = {"N": 2, "d_model": 128, "d_ff": 512, "h": 4}
    forward = forward_flops(Settings(**sizes), 1200, 12.5, 12.5)
    assert found.data["runs"][0]["cost"]["counted"] == pytest.approx(7 * 4 * 3 * forward)
    assert rows_of(found, "Data")["source tokens per update"][""] == "not recorded"
