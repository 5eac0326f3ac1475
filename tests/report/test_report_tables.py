"""Reports beside the paper's tables, and on several runs."""

import json

import pytest
from training_runs import text_of, training_log

from aiayn_plugin.report.cost import cost_of
from aiayn_plugin.report.curves import Line, look
from aiayn_plugin.report.document import to_markdown
from aiayn_plugin.report.formatting import power
from aiayn_plugin.report.report import report
from aiayn_plugin.report.run import read_run
from aiayn_plugin.report.tables import is_newstest, of_seeds, table_3
from aiayn_plugin.text.settings import TextSettings

pytestmark = pytest.mark.usefixtures("loud")


def test_published_figures_are_marked_and_only_newstest2014_stands_beside_them(make, data):
    run = make("run")
    text = text_of(run)
    assert "| Transformer (big) | 28.4 | 41.8 | 2.3 · 10¹⁹ | 2.3 · 10¹⁹ | published |" in text
    assert "not known to be tested on the whole newstest2014" in text
    assert "Table 3 is of newstest2013" in text
    own = read_run(run)
    own.text = TextSettings(**{**vars(own.text), "inputs": {"test.newstest2014": "x"}})
    object.__setattr__(own.evaluations["test"].scores, "sentences", 3003)
    bleu = own.evaluations["test"].scores.paper_bleu
    found = report([own], 1.0).write(run / "other")[1].read_text(encoding="utf-8")
    papers = power(own.log.hours * 3600 * 2 * 1e12)
    assert f"| **run** | {bleu:.2f} |  | {papers} |  |" in found
    assert "not known to be tested" not in found
    own.text = TextSettings(**{**vars(own.text), "inputs": {"valid.newstest2013": "x"}})
    object.__setattr__(own.evaluations["valid"].scores, "sentences", 3000)
    assert is_newstest(own, "valid")
    own.text = TextSettings(**{**vars(own.text), "target_lang": "fr"})
    assert not is_newstest(own, "valid")


@pytest.mark.parametrize(
    "flags, row",
    [
        (("--arch", "aiayn_base"), "aiayn_base | some.log | 6 | 512"),
        (("--arch", "aiayn_c_n2"), "aiayn_c_n2 | some.log | 2 |"),
        (("--arch", "aiayn_base", "--dropout", "0.2"), "aiayn_d_dropout02 | some.log |"),
        (("--arch", "aiayn_e_learned"), "aiayn_e_learned | some.log" + 8 * " | " + " | learned"),
        (("--arch", "aiayn_base", "--d-ff", "99"), None),
    ],
)
def test_the_row_of_table_3_that_a_run_is(tmp_path, flags, row):
    log = tmp_path / "some.log"
    log.write_bytes(training_log(*flags).bytes())
    text = text_of(log)
    assert (f"| {row}" in text) if row else ("is no row of Table 3" in text)
    assert not row or "| aiayn_base | " in text, "what an empty cell stands for"


def test_several_runs_in_the_layout_of_table_3(make, browser):
    runs = [
        make("base", 2),
        make("c_n2", 9, "--N", "1"),
        make("_$x$ <b>", 2, "--positions", "learned"),
    ]
    text = text_of(*runs)
    rows = [
        line
        for line in text.splitlines()
        if line.startswith(("| base |", "| **base** |", "| c_n2 |"))
    ]
    assert rows[0].startswith(
        "| **base** | 2 | 128 | 512 | 4 | 32 | 32 | 0.1 | 0.1 | sinusoids | 2,000 | 2.50"
    )
    assert rows[1].startswith("| c_n2 | 1 |  |  |  |  |  |  |  |  |  | 2.50 |")
    assert "| aiayn_c_n2 | c_n2 | 2 |" in text, "the published row of that name"
    assert "|  |  | learned |  | 2.50 |" in text and "Table 3 is of newstest2013" in text
    found = json.loads((runs[0].parent / "text.json").read_text(encoding="utf-8"))["runs"]
    first, worse, same = (run["evaluations"]["test"]["by_chance"]["sacreBLEU"] for run in found)
    assert first["p"] is None and worse["p"] < 0.05 and same["p"] == 1
    browser.open(runs[0].parent / "text.html")
    assert browser.complaints() == []
    assert "_$x$ <b>" in browser.find("figure svg").text
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    # as wide as A4 is, on its side, within margins of 1 cm
    browser.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 1046, "height": 720, "deviceScaleFactor": 1, "mobile": False},
    )
    try:
        assert browser.js("document.documentElement.scrollWidth <= innerWidth"), "paper is wide"
        assert (
            browser.js("getComputedStyle(document.querySelector('.wide')).overflowX") == "visible"
        )
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "screen"})
        browser.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": 420, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        )
        assert browser.js("document.documentElement.scrollWidth <= innerWidth"), "boxes scroll"
        assert browser.js("document.querySelector('figure svg').clientWidth > 600"), "legible"
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_what_cannot_be_compared_is_said(make):
    runs = [read_run(make(f"{name}/c_n2")) for name in "xyz"]
    runs[1].text = TextSettings(**{**vars(runs[1].text), "merges": 7})
    runs[2].settings = None
    first, second, third, *_ = table_3(runs, list(map(cost_of, runs))).rows
    assert second[1] is None and "OTHER PIECES" in second[-1] and third[1:11] == ["?"] * 10
    assert "OTHER" not in third[-1]
    text = report(runs).write(runs[0].path / "text")[1].read_text(encoding="utf-8")
    assert "an empty cell is that row's, and ? is not known" in text
    names = ", ".join(str(run.path) for run in runs)
    assert f"| aiayn_c_n2 | {names} | 2 |" in text, "runs of the same name keep their row"


def test_runs_that_differ_in_the_seed_alone(make):
    runs = [read_run(make(name, wrong)) for name, wrong in (("base", 2), ("seed2", 9), ("c", 1))]
    runs[1].log.facts["seed"] = "2"
    values = sorted(run.evaluations["valid"].scores.paper_bleu for run in runs[:2])
    assert of_seeds(runs[:2]) == [
        "base, seed2 differ in the seed alone: PPL 2.50 to 2.50, BLEU "
        f"{values[0]:.2f} to {values[1]:.2f}"
    ]
    assert "differ in the seed alone" in to_markdown("", report(runs[:2]).sections)
    runs[1].rows = runs[1].rows[1:]
    assert of_seeds(runs) == [], "two runs of one seed are no sample of seeds"


def test_a_rate_that_follows_no_equation(tmp_path):
    log = tmp_path / "some.log"
    for flags, shown in (((), True), (("--lr-scheduler", "fixed", "--lr", "1e-4"), False)):
        log.write_bytes(training_log("--arch", "aiayn_base", *flags).bytes())
        assert ("equation (3)" in text_of(log)) == shown


def test_lines_of_any_number_of_runs_can_be_told_apart():
    looks = [look(number) for number in range(22)]
    assert len(set(looks)) == 22
    assert {Line("run", [(1, 1.0, 1.0)], *each).marker for each in looks} == {"."}
