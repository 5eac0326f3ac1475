"""Reports on one run: the page, Markdown and JSON, where they go, and following a run."""

import json
import signal
import subprocess
import sys
import time

import pytest
from training_runs import HOSTILE, text_of, training_log

from aiayn_plugin.cli import main
from aiayn_plugin.cli.report import stem_of
from aiayn_plugin.report.curves import curves
from aiayn_plugin.report.history import Point, TrainingLog
from aiayn_plugin.report.run import read_run
from aiayn_plugin.text.scores import score

pytestmark = pytest.mark.usefixtures("loud")


def test_a_page_of_a_run(make, browser, tmp_path):
    run = make("run")
    main(["report", str(run)])
    browser.open(run / "report.html")
    assert browser.driver.title == "Training run run"
    assert browser.complaints() == []
    assert browser.find_all("img, script[src], link") == [], "nothing comes from elsewhere"
    seen = browser.find("body").text
    for wanted in (HOSTILE, "50 of 2,000", "sacreBLEU", "2 starts", "published", "28.4"):
        assert wanted in seen, wanted
    figures = browser.find_all("figure > svg[role=img]")
    assert len(figures) == 6  # BLEU was validated once
    for figure in figures:
        assert "at update 50" in figure.get_attribute("aria-label")
        assert "restarted at update 20" in figure.get_attribute("aria-label")
        assert figure.size["width"] > 600
    for table_ in browser.find_all("table"):
        assert table_.find_elements("css selector", "th[scope]")
    colours = {
        scheme: (
            browser.scheme(scheme),
            browser.js(
                "[getComputedStyle(document.body).backgroundColor, "
                "getComputedStyle(document.querySelector('figure svg text')).fill, "
                "getComputedStyle(document.body).color]"
            ),
        )[1]
        for scheme in ("light", "dark")
    }
    for background, letters, text in colours.values():
        assert letters == text != background, "letters of figures are the page's"
    assert colours["light"] != colours["dark"]
    assert browser.js("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"
    ids = browser.js("[...document.querySelectorAll('[id]')].map(element => element.id)")
    assert len(set(ids)) == len(ids)


def test_markdown_and_json_hold_the_same(make):
    run = make("run", 2)
    text = text_of(run)
    assert "<script" not in text.replace("\\<", "") and "svg" not in text
    found = json.loads((run.parent / "text.json").read_text(encoding="utf-8"))["runs"][0]
    assert found["evaluations"]["test"]["sentences"] == 40
    assert found["log"]["train"][-1]["update"] == 50 and found["cost"]["parameters"] == 1234
    assert f"sacreBLEU {found['evaluations']['test']['bleu']:.2f}" in text
    assert {row["name"]: row["run"] for row in found["settings"]}["d_model"] == "128"
    assert "| **d_model** | 512 | 128 | changed |" in text
    kept = (run / "data" / "pairs.txt").read_text(encoding="utf-8").strip()
    assert " of 300 kept; dropped: " in kept and kept in text
    assert "1,000 source, 1,200 target" in text


def test_costs_both_ways(tmp_path):
    log = tmp_path / "some.log"
    whole = training_log(restarted=False)
    whole.say("rank   0: capabilities =  6.0  ; total memory = 15.9 GB ; name = Tesla P100-X  ")
    log.write_bytes(whole.bytes())
    assert "6.8 · 10¹⁶: 3,600 s × 2 devices × 9.5 TFLOPS" in text_of(log)
    assert "1.4 · 10¹⁶: 3,600 s × 2 devices × 2.0 TFLOPS" in text_of(log, tflops=2.0)
    log.write_bytes(training_log(restarted=False).bytes())
    assert "the log does not name the device: give --tflops" in text_of(log)


def test_where_reports_go(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b.log").touch()
    assert stem_of(None, [tmp_path / "a"]) == tmp_path / "a" / "report"
    assert stem_of(None, [tmp_path / "b.log"]) == tmp_path / "report"
    assert stem_of(None, [tmp_path / "a", tmp_path / "b.log"]) == tmp_path / "report"
    assert stem_of(tmp_path / "x.html", []) == stem_of(tmp_path / "x", []) == tmp_path / "x"
    assert stem_of(tmp_path / "v1.5", []) == tmp_path / "v1.5"


def test_scores_say_how_they_were_counted(make):
    run = read_run(make("run"))
    assert "- paper BLEU: Moses tokens, German compounds split" in text_of(run.path)
    text = run.evaluations["test"].text
    assert score(text.system, text.references, "fr").words == "Moses tokens"


def test_a_short_training_has_minutes():
    for unit, hours in (("minutes", 50 / 60), ("hours", 2.0)):
        log = TrainingLog(train=[Point(1, 0.0, {"loss": 2.0}), Point(2, hours, {"loss": 1.0})])
        (figure,) = curves({"run": log}, {})
        assert f">{unit} of training<" in figure.svg


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_run_is_followed_until_it_ends(tmp_path, interrupted):
    path, log = tmp_path / "train.log", training_log(restarted=False)
    path.write_bytes(log.bytes())
    command = [sys.executable, "-m", "aiayn_plugin.cli", "report", path, "--follow", "1"]
    # Tests that run in the background have interrupts ignored, and so would the command.
    heard = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=heard) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "train.log: 10 updates\n"
        assert '<meta http-equiv="refresh" content="1">' in (tmp_path / "report.html").read_text()
        log.inner(20, wall=3700)
        path.write_bytes(log.bytes())
        end = time.monotonic() + 60
        while process.stdout.readline() != "train.log: 20 updates\n":
            assert time.monotonic() < end
        if interrupted:
            process.send_signal(signal.SIGINT)
        else:
            log.say("done training in 9 seconds")
            path.write_bytes(log.bytes())
        assert "the report is in" in process.stdout.read()
    assert process.returncode == 0
    assert 'http-equiv="refresh"' not in (tmp_path / "report.html").read_text()
