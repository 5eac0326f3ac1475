"""Documents: their content is shown as text, in HTML and in Markdown."""

import re

from aiayn_plugin.report.document import (
    ExampleOutputs,
    Figure,
    Figures,
    KeyFigures,
    LegendEntry,
    Section,
    Table,
    Term,
    to_html,
    to_markdown,
)
from aiayn_plugin.report.formatting import format_number, format_power
from aiayn_plugin.training.remaining_time import duration

HOSTILE = "<script>alert(1)</script> \"' &amp; | a_b _c_ **d** `e` [f](g)\n# h"
BLOCKS = [
    HOSTILE,
    [HOSTILE],
    Table(HOSTILE, ("", HOSTILE), [[HOSTILE, HOSTILE], [Term(HOSTILE, "d_k"), 3]], frozenset({0})),
    Figures(
        [Figure(lambda: ("<svg ></svg>",) * 2, HOSTILE, HOSTILE, [LegendEntry(HOSTILE, "#0072b2")])]
    ),
    KeyFigures([(HOSTILE, HOSTILE, HOSTILE)]),
    ExampleOutputs([(HOSTILE, HOSTILE, HOSTILE), (HOSTILE, "", HOSTILE)]),
]


def test_html_has_no_markup_from_its_content():
    text = to_html(HOSTILE, [Section(HOSTILE, BLOCKS)])
    assert "<script" not in text and "&lt;script&gt;" in text and "&amp;amp;" in text
    tags = "main h1 h2 section p ul li div table thead tr th td tbody svg figure figcaption "
    tags += "dl dt dd b bdi article form label input path code"
    assert set(re.findall(r"</?(\w+)", text)) <= set(tags.split())


def test_markdown_shows_its_content_unchanged():
    text = to_markdown("title", [Section("section", BLOCKS)])
    assert "<script" not in text.replace(r"\<script", "")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [len(re.findall(r"(?<!\\)\|", row)) - 1 for row in rows]
    assert cells == [2] * 4 + [3] * 4, "two tables of two and of three columns"
    assert r"a_b \_c\_ \*\*d\*\* \`e\` \[f\](g) \# h" in text


def test_a_caption_that_repeats_the_heading_is_left_out():
    tables = [Table("Cost", (), [["a", 1]]), Table("Data", (), [["b", 2]])]
    html = to_html("t", [Section("Cost", tables)])
    assert re.findall(r"<(?:h2|caption)>(\w+)", html) == ["Cost", "Data"]
    assert 'aria-label="Cost"' in html
    text = to_markdown("t", [Section("Cost", tables)])
    assert re.findall(r"^(?:## )?(\w+):?$", text, re.M) == ["Cost", "Data"]


def test_columns_of_numbers_are_aligned_right():
    power = format_power(2.3e19)
    rows = [["a", "1,000", "1"], ["b", "−2.5 to 1.0", "x"], ["c", power, "y"], ["d", None, "z"]]
    table = Table("c", ("", "all", "some"), rows)
    text = to_html("t", [Section("s", [table])])
    assert re.findall(r'<td class="number">([^<]*)', text) == ["1,000", "−2.5 to 1.0", power, ""]
    assert text.count('<th scope="row"') == 4 and text.count('<th scope="col"') == 3


def test_a_table_may_have_no_rows():
    section = Section("s", [Table("c", ("", "all"), [])])
    assert to_html("t", [section]).count('<th scope="col"') == 2
    assert "|  | all |" in to_markdown("t", [section])


def test_text_starts_neither_a_list_nor_a_formula():
    blocks = [["- a", "1. b $x$"], "+ c", "12) d", "    e", "3.5 f"]
    assert to_markdown("t", [Section("s", blocks)]).splitlines()[4:] == [
        *(r"- \- a", r"- 1\. b \$x\$", "", r"\+ c", "", r"12\) d", "", "e", "", r"3\.5 f"),
    ]


def test_numbers_as_text():
    durations = ["0 s", "1 min", "3 min 51 s", "1 h", "5 h", "1 d 1 h"]
    assert list(map(duration, (0, 59.6, 231, 3600, 18_021, 90_061))) == durations
    assert format_power(3.28e18) == "3.3 · 10¹⁸" and format_power(1) == "1.0 · 10⁰"
    assert format_number(-0.5, "+.2f") == "−0.50" and format_number(2, "+.2f") == "+2.00"
    assert format_number(None) is None
