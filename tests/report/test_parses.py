"""Table 4 with a run in it."""

from pathlib import Path

import pytest

from aiayn_plugin.parsing.f1 import BracketCounts
from aiayn_plugin.parsing.scores import TreeScores
from aiayn_plugin.report.parses import table_4
from aiayn_plugin.report.run import Run
from aiayn_plugin.text.settings import PENN, TextSettings


@pytest.mark.parametrize(
    "name, sentences, shown",
    [
        ("test.wsj", 2416, "80.00"),
        ("test.wsj", 2415, None),
        ("test", 2416, None),
    ],
)
def test_f1_stands_in_table_4_only_on_section_23(name, sentences, shown):
    counts = BracketCounts(matched=8, gold=10, system=10, sentences=sentences)
    text = TextSettings("en", "tree", 0, PENN, inputs={name: "", "train.extra1": ""})
    run = Run(
        "mine", Path("mine"), text=text, trees={"test": TreeScores([], [], counts, counts, [])}
    )
    table, *notes = table_4([run])
    assert table.rows[-1] == ["mine", "with further trees", shown, "this run"]
    assert [row[2] for row in table.rows if row[0].startswith("Transformer")] == ["91.3", "92.7"]
    assert bool(notes) == (shown is None)
