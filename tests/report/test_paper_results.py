"""The published results, against the paper's tables."""

import re
from itertools import zip_longest

import pytest

from aiayn_plugin.paper import ARCHITECTURES, SCALED_DOWN, get_settings
from aiayn_plugin.report.paper_results import (
    TABLE_2,
    TABLE_3,
    TABLE_4,
    find_row_by_name,
    find_row_by_settings,
)


@pytest.fixture(scope="module")
def spec(repo):
    path = repo.parent / "shared" / "paper" / "spec.md"
    if not path.is_file():
        pytest.skip(f"needs the paper's tables in {path}")
    return path.read_text(encoding="utf-8")


def test_the_headline_results():
    assert TABLE_2["Transformer (base model)"] == ("27.3", "38.1", 3.3e18, 3.3e18)
    assert TABLE_2["Transformer (big)"] == ("28.4", "41.8", 2.3e19, 2.3e19)
    assert TABLE_2["GNMT + RL, ensemble"] == ("26.30", "41.16", 1.8e20, 1.1e21)
    assert TABLE_3["aiayn_base"] == (4.92, 25.8) and TABLE_3["aiayn_big"] == (4.33, 26.4)
    assert [f1 for name, _, f1 in TABLE_4 if name.startswith("Transformer")] == [91.3, 92.7]


def test_table_2_is_the_papers(spec):
    text = re.search(r"Table 2, newstest2014 \(.*?\): (.*?)\. \(", spec, re.S)[1].replace("*", "")
    rows = []
    for part in re.split(r"[;:] ", text):
        numbers = re.findall(r"(?<![\w.])(?:–|\d[\d.]*e\d+|\d+\.\d+)(?![\w.])", part)
        if numbers:
            rows.append([None if number == "–" else number for number in numbers])
    assert len(rows) == len(TABLE_2) == 10
    for (system, cells), row in zip(TABLE_2.items(), rows, strict=True):
        bleu_de, bleu_fr, flops_de, flops_fr = (*row, *[None] * (4 - len(row)))
        assert cells[:2] == (bleu_de, bleu_fr), system
        assert cells[2] == (flops_de and float(flops_de)), system
        if not system.startswith("Transformer"):  # which has one number for both
            assert cells[3] == (flops_fr and float(flops_fr)), system


def test_table_3_is_the_papers(spec):
    base = re.search(r"dev PPL ([\d.]+), dev BLEU ([\d.]+), (\d+)M parameters", spec).groups()
    rows = re.findall(r"^\| (?:[A-E]|big) \| .* \| ([\d.]+) \| ([\d.]+) \| (\d*) ?\|$", spec, re.M)
    assert len(rows) + 1 == len(TABLE_3) == 20
    for arch, row in zip_longest(TABLE_3, [base, *rows]):
        ppl, bleu, millions = row
        assert TABLE_3[arch] == (float(ppl), float(bleu)), arch
        assert get_settings(arch).paper_millions == (int(millions) if millions else None), arch


def test_table_4_is_the_papers(spec):
    text = re.search(r"WSJ section 23 F1: (.*)\.\n", spec)[1]
    expected = [float(f1) for f1 in re.findall(r"\d\d\.\d", text)]
    assert [f1 for _, _, f1 in TABLE_4] == expected


def test_a_row_is_found_by_its_columns_and_by_its_name():
    others = {"aiayn_big_en_fr", "aiayn_parser", *SCALED_DOWN}
    assert TABLE_3.keys() == ARCHITECTURES.keys() - others
    for arch in TABLE_3:
        assert find_row_by_settings(get_settings(arch)) == arch
        assert find_row_by_name(arch) == find_row_by_name(arch[6:]) == arch
    other = get_settings("aiayn_base")
    other.d_ff = 2000
    assert find_row_by_settings(other) is None
    assert find_row_by_name("tiny") is find_row_by_name("run") is None
