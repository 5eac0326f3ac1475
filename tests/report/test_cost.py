"""§6.1: FLOPs both ways, and what the paper published."""

import pytest
import torch
from models import build
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from aiayn_plugin.paper import ARCHITECTURES, SCALED_DOWN, ModelSettings, get_settings
from aiayn_plugin.report.cost import counted, forward, papers_way, rate_of
from aiayn_plugin.report.paper_results import TABLE_2, TABLE_3, row_named, row_of


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
    # torch counts no fused attention on a CPU
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(source, None, target)
    assert counter.get_total_flops() == forward(ModelSettings(**sizes), 50, 17, 11)


def test_restricted_attention_costs_in_proportion_to_length():
    restricted, full = ModelSettings(neighbourhood=8), ModelSettings()
    long = forward(restricted, 100, 2000, 1) - forward(restricted, 100, 1000, 1)
    longer = forward(restricted, 100, 3000, 1) - forward(restricted, 100, 2000, 1)
    assert long == longer
    assert forward(full, 100, 3000, 1) - forward(full, 100, 2000, 1) > longer
    assert forward(restricted, 100, 8, 8) == forward(full, 100, 8, 8)


def test_a_training_is_three_forward_passes_of_each_pair():
    s = ModelSettings()
    assert counted(s, 100, 7, 4, 40, 20) == 7 * 4 * 3 * forward(s, 100, 10, 5)


def test_the_papers_way_gives_the_papers_figures():
    """§5.2: 12 hours and 3.5 days on 8 P100; Table 2: 3.3e18 and 2.3e19."""
    assert rate_of("Tesla P100-SXM2-16GB") == 9.5
    assert rate_of("2 × AMD EPYC") is None and rate_of("NVIDIA H100") is None
    assert [rate_of(f"Quadro {name}") for name in ("P1000", "M4000", "K4000")] == [None] * 3
    base, big = TABLE_2[-2:]
    assert papers_way(12 * 3600, 8, 9.5) == pytest.approx(base.flops_de, rel=0.01)
    assert papers_way(3.5 * 86_400, 8, 9.5) == pytest.approx(big.flops_de, rel=0.01)


def test_the_rows_of_table_3():
    assert TABLE_3.keys() == ARCHITECTURES.keys() - {
        "aiayn_big_en_fr",
        "aiayn_parser",
        *SCALED_DOWN,
    }
    for arch in TABLE_3:
        assert row_of(get_settings(arch)) == row_named(arch) == row_named(arch[6:]) == arch
    other = get_settings("aiayn_base")
    other.d_ff = 2000
    assert row_of(other) is None and row_named("tiny") is None and row_named("run") is None
