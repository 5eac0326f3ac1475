"""The report: the page, Markdown and JSON, where they are written, and following a run."""

import io
import json
import os

import pytest
from PIL import Image
from training_runs import (
    HOSTILE,
    Record,
    interrupted,
    markdown_of,
    report_on,
    rows_of,
    translation_scores,
    write_scores,
)

from aiayn_plugin.cli import main
from aiayn_plugin.report.document import Term

pytestmark = pytest.mark.usefixtures("quiet")


def test_the_page_of_a_run(make, browser):
    run = make("run", batches={"max_tokens": 845.0, "update_freq": 1.0})
    main(["report", str(run)])
    browser.open(run / "report.html")
    assert browser.driver.title == "Training run run"
    assert browser.complaints() == []
    assert browser.find_all("img, script[src], link") == [], "nothing is fetched"
    seen = browser.find("body").text
    for expected in (HOSTILE, "50 of 2,000 updates", "sacreBLEU", "1 restart", "paper"):
        assert expected in seen, expected
    assert len(browser.find_all(".numbers b")) == 3 and len(browser.find_all(".examples b")) == 4
    equal, different = map(len, map(browser.find_all, (".examples .same", ".examples .different")))
    assert equal == different == 2, "half of the examples differ from their reference"
    headings = browser.js("[...document.querySelectorAll('h2, caption')].map(e => e.textContent)")
    assert len(headings) == len(set(headings))
    for axis in ("updates", "time"):
        switch = browser.find(f"input[value={axis}]").find_element("xpath", "..")
        switch.click()
        assert switch.size["height"] >= 40
        figures = [f for f in browser.find_all("figure > svg[role=img]") if f.is_displayed()]
        assert len(figures) == 6, "one for each quantity"
        assert len({figure.location["y"] for figure in figures[:3]}) == 1, "three in a row"
        for figure in figures:
            assert "at update 50" in figure.get_attribute("aria-label")
            assert "restarted at update 20" in figure.get_attribute("aria-label")
            assert figure.find_elements("xpath", ".//*[contains(text(), 'minutes of')]") == [] or (
                axis == "time"
            )
    for table in browser.find_all("table"):
        assert table.find_elements("css selector", "th[scope]")
    colours = {}
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        colours[scheme] = browser.js(
            "[getComputedStyle(document.body).backgroundColor, "
            "getComputedStyle(document.querySelector('figure svg text')).fill, "
            "getComputedStyle(document.body).color]"
        )
    for background, letters, text in colours.values():
        assert letters == text != background, "figures have the page's text colour"
    assert colours["light"] != colours["dark"]
    assert browser.js("document.documentElement.scrollWidth <= innerWidth"), "nothing overflows"
    ids = browser.js("[...document.querySelectorAll('[id]')].map(element => element.id)")
    assert len(set(ids)) == len(ids)
    with browser.emulating(390, 844):
        tables = "table:not(:has(tr > :nth-child(4)))"
        right = f"Math.max(...[...document.querySelectorAll('{tables}')].map((table) =>"
        assert browser.js(right + " table.getBoundingClientRect().right))") <= 390
        assert len(browser.find_all(tables)) == 5
        assert browser.find("section td:nth-child(3)").text
        codes = [code.text for code in browser.find_all("th code")]
        assert {"d_model", "P_drop", "--attention-bias", "--max-tokens"} <= set(codes)


def test_the_page_of_several_runs_fits_paper_and_phone(make, browser):
    runs = [make("base"), make("c_n2", 9, "--N", "1"), make("_$x$ <b>", 2, "--N", "3")]
    main(["report", *map(str, runs)])
    browser.open(runs[0].parent / "report.html")
    assert browser.complaints() == []
    assert len(browser.find_all(".legend")) == 1 and "_$x$ <b>" in browser.find(".legend").text
    with browser.emulating(1046, 720, media="print"):  # A4 landscape with margins of 1 cm
        assert browser.js("document.documentElement.scrollWidth <= innerWidth"), "fits the paper"
        overflow = "getComputedStyle(document.querySelector('.wide')).overflowX"
        assert browser.js(overflow) == "visible"
    with browser.emulating(420, 900):
        assert browser.js("document.documentElement.scrollWidth <= innerWidth"), "boxes scroll"
        assert browser.js("document.querySelector('figure svg').clientWidth > 370"), "legible"
        table = browser.find(".wide")
        edges = [table.screenshot_as_png]
        browser.driver.execute_script("arguments[0].scrollLeft = 9999", table)
        edges.append(table.screenshot_as_png)
        assert [has_shadow(png) for png in edges] == [(False, True), (True, False)]


def has_shadow(png):
    """Return whether the left and the right edge of a picture differ from its background."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    row = 3  # above the text
    edges = (picture.getpixel((x, row)) for x in (0, picture.width - 1))
    return tuple(edge != picture.getpixel((picture.width // 2, row)) for edge in edges)


def test_the_outcome_of_a_run(tmp_path):
    """The last perplexity and loss, and the lowest loss, which is neither the first nor last."""
    record = Record().start().train(10, 60)
    for update, loss, ppl in ((10, 8.0, 5.0), (20, 6.5, 4.0), (30, 7.25, 4.5)):
        record.valid(update, 60 * update, loss=loss, ppl=ppl)
    outcome = rows_of(report_on(record.write(tmp_path / "run.jsonl")), "Outcome")
    assert {name: row[""] for name, row in outcome.items()} == {
        "training": "not finished; last recorded at 2026-01-01 12:00:04",
        "updates": "30 of 2,000",
        "time": "30 min",
        "parameters": "1,234",
        "validation": "perplexity 4.50, loss 7.250 after 30 updates; lowest loss 6.500",
    }
    outcome = rows_of(report_on(interrupted().write(tmp_path / "other.jsonl")), "Outcome")
    assert outcome["training"][""] == "finished"
    assert outcome["time"][""] == "51 min 40 s, 1 restart"


def test_one_of_a_kind_is_singular(tmp_path):
    record = Record("--max-update", "1", devices=1).start().train(1, 1).valid(1)
    run = record.write(tmp_path / "run")
    text = markdown_of(run, tflops=1.0)
    expected = ("1 of 1 update;", "after 1 update;", "processor; 1 process |", "× 1 device ×")
    for part in (*expected, "Training time includes start-up"):
        assert part in text
    write_scores(run, test=translation_scores(wrong=0, sentences=1))
    assert "exact match of the translations: 100.0% (1 sentence)" in markdown_of(run)


def test_settings_data_and_origin(make):
    batches = {"max_tokens": 845, "update_freq": 1, "updates": 7, "padding": 0.0378}
    batches |= {"source_tokens": 60.0, "target_tokens": 50.0}
    found = report_on(make("run", 2, "--d-model", "64", batches=batches))
    settings = rows_of(found, "Settings of aiayn_tiny, compared with aiayn_base")
    assert settings["width of the model", "d_model"] == {"paper": "512", "this run": "64"}
    assert settings["dropout", "P_drop"] == {"paper": "0.1", "this run": "0.1"}
    shown = {name[0]: row["paper"] for name, row in settings.items()}
    assert shown["biases in the attention projections"] == "no"
    assert shown["neighbourhood of restricted self-attention"] == "none"
    assert shown["Adam's decay rates"] == "0.9, 0.98"
    assert shown["target tokens per update"] == "25,000"
    assert all(isinstance(name, Term) for name in settings), "every setting has an English name"
    data = {name: row[""] for name, row in rows_of(found, "Data").items()}
    assert data == {
        "training pairs": "290",
        "validation pairs": "20",
        "kept and dropped": "training pairs: 290 of 300 kept; dropped: 10 too different in length",
        "source vocabulary": "1,000",
        "target vocabulary": "1,200",
        "source tokens per update": "60",
        "target tokens per update": "50",
        ("maximum tokens per batch", "--max-tokens"): "845",
        ("batches per update on each device", "--update-freq"): "1",
        "updates per epoch": "7",
        "padding": "3.8%",
        "languages": "English → German",
        "subwords": "bpe, 500 merges; tokenizer moses",
    }
    origin = {name: row[""] for name, row in rows_of(found, "Versions and input").items()}
    assert origin["trained with"] == "Python 3, torch 2, fairseq 0"
    assert origin["device"] == "some processor; 2 processes" and origin["seed"] == "7"
    assert origin["command"] == "fairseq-train data --arch aiayn_tiny"
    assert origin["SHA-256 of test.en"] == "3" * 64


def test_markdown_and_json_hold_the_same(make, tmp_path):
    _, *paths = report_on(make("run", 2)).write(tmp_path / "text")
    text, data = (path.read_text(encoding="utf-8") for path in paths)
    assert "<script" not in text.replace("\\<", "") and "svg" not in text
    found = json.loads(data)["runs"][0]
    scores = found["translations"]["test"]
    assert scores["sentences"] == 20 and scores["system"][0] == HOSTILE
    assert found["training"]["train"][-1]["update"] == 50 and found["cost"]["parameters"] == 1234
    assert f"sacreBLEU {scores['bleu']:.2f}" in text
    assert "| **width of the model `d_model`** | 512 | 128 |" in text


@pytest.mark.parametrize(
    ("flags", "is_shown"), [((), True), (("--lr-scheduler", "fixed", "--lr", "1e-4"), False)]
)
def test_equation_3_is_drawn_for_its_own_schedule(make, flags, is_shown):
    assert ("equation (3)" in markdown_of(make("run", 2, *flags))) == is_shown


def test_where_reports_are_written(tmp_path):
    run, other = (Record().start().write(tmp_path / name) for name in ("a", "b.jsonl"))
    expected = {
        (str(run),): run / "report",
        (str(other),): tmp_path / "report",
        (str(run), str(other)): tmp_path / "report",
        (str(run), "--output", str(tmp_path / "x.html")): tmp_path / "x",
        (str(run), "--output", str(tmp_path / "v1.5")): tmp_path / "v1.5",
    }
    for arguments, stem in expected.items():
        main(["report", *arguments, "--tflops", "2.5"])
        for suffix in (".html", ".md", ".json"):
            path = stem.with_name(stem.name + suffix)
            assert suffix != ".json" or '"tflops": 2.5' in path.read_text(encoding="utf-8")
            path.unlink()


@pytest.mark.parametrize("name", ["scores.json", "NOTES.md", "attention.html"])
def test_a_report_replaces_only_reports(tmp_path, error, name):
    run = Record().start().write(tmp_path / "a")
    (run / name).write_text("{}")
    message = error("report", run, "--output", run / name)
    assert f"{name} is not part of a report: give a different" in message
    assert (run / name).read_text() == "{}"
    for _ in range(2):
        main(["report", str(run), "--output", str(run / "a")])


def test_runs_of_the_same_name_are_told_apart(make):
    first, second = make("x/c_n2"), make("y/c_n2")
    names = [run["name"] for run in report_on(first, second, second).data["runs"]]
    assert names == [str(first), str(second), f"{second} (3)"]


RECORD = "checkpoints/run.jsonl"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (RECORD, None, "Missing: checkpoints/run.jsonl."),
        (RECORD, b"", "Outcome"),
        (RECORD, b"\xff\x00\n" * 9, "run.jsonl: 9 × line that is not a record of a training run"),
        (RECORD, "pipe", "run.jsonl: not a regular file"),
        ("scores.json", None, "Outcome"),  # the other scores will do
        ("scores.json", b"\xff", "scores.json: "),
        ("scores.json", b"[" * 100_000, "scores.json: "),
        ("scores.json", b"[]", "scores.json: not written by aiayn score --json"),
        ("scores.json", b'{"kind": "trees"}', "scores.json: not written by aiayn score"),
        ("scores.json", b" " * ((1 << 26) + 1), "scores.json: more than 67,108,864 bytes"),
        (
            "scores.json",
            json.dumps({**translation_scores(), "split": "valid"}).encode(),
            "scores.json: scores of a different split: rename it to scores-valid.json",
        ),
    ],
)
def test_missing_and_damaged_files_are_listed(tmp_path, name, content, message, capsys):
    run = Record().start().epoch(10, 60).write(tmp_path / "run")  # no curve to draw
    write_scores(run, test=translation_scores(), valid=translation_scores())
    (run / name).unlink()
    if content == "pipe":
        os.mkfifo(run / name)
    elif content is not None:
        (run / name).write_bytes(content)
    main(["report", str(run)])
    text = (run / "report.md").read_text(encoding="utf-8").replace("\\", "")
    assert message in text and "Table 2" in text and "Traceback" not in text
    assert json.loads((run / "report.json").read_text(encoding="utf-8"))
    if content is not None:
        assert len(capsys.readouterr().out.splitlines()) <= 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("d_model", value) for value in (0, 7, "512", 10**9, True)),
        *(("N", 9**90), ("attention_bias", 1), ("positions", 3), ("tie_embeddings", "x")),
        *(("dropout", float("inf")), ("dropout", [[[1]]])),
    ],
)
def test_hostile_settings_affect_nothing_else(tmp_path, name, value):
    record = Record("--h", "4")
    record.facts["settings"] = [row for row in record.facts["settings"] if row["name"] != "d_k"]
    record.facts["settings"] += [{"name": name, "paper": 1, "run": value}]
    run = record.start().epoch(10, 60).write(tmp_path / "run.jsonl")  # no curve to draw
    report = report_on(run, tflops=1.0)
    assert report.write(tmp_path / "report")
    (fault,) = report.data["runs"][0]["faults"]
    assert fault.startswith("settings: ") and (name in fault or value == 7 or value == "x")


@pytest.mark.parametrize(
    "facts",
    [
        {"settings": {"N": 1}, "text": [], "batches": {"padding": "x", "source_tokens": 1e400}},
        {"settings": [None, 1, {"name": [], "run": {}}], "text": {"inputs": {"a": 1}}},
        {"dictionaries": {"source": -1, "target": 1e9}, "devices": "x", "parameters": 10**400},
        {"architecture": HOSTILE, "command": HOSTILE * 9999, "versions": HOSTILE, "kept": HOSTILE},
    ],
)
def test_hostile_facts_affect_nothing_else(tmp_path, facts):
    run = Record(**facts).start().train(10, 60).write(tmp_path / "run.jsonl")
    paths = report_on(run, tflops=9e5).write(tmp_path / "report")
    assert "<script>document" not in paths[0].read_text(encoding="utf-8")
    assert "| updates | 10" in paths[1].read_text(encoding="utf-8")


def test_a_diverged_run_is_reported(tmp_path):
    record = Record().start().train(10, 60).valid(10, loss=8.9).valid(20, loss=None, ppl=None)
    text = markdown_of(record.write(tmp_path / "run.jsonl"))
    assert "| validation | no value after 20 updates; lowest loss 8.900 |" in text
    assert "1 × value of loss that is not a finite number" in text


def test_paths_that_are_not_runs(tmp_path, error):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty.jsonl").touch()
    write_scores(tmp_path / "run", test=translation_scores())
    for path, message in (
        (tmp_path / "run" / "scores.json", "has no record of a training run"),
        (tmp_path / "none", "does not exist: give a run directory"),
        (tmp_path, "has neither checkpoints/run.jsonl nor run.jsonl nor scores.json"),
        (tmp_path / "empty.jsonl", "has no record of a training run"),
        (tmp_path / "pipe", "is not a regular file"),
    ):
        assert message in error("report", path)
    assert "must be" in error("report", tmp_path, "--tflops", "0")
    for nameless in (".", "", "..", "/"):
        assert "has no file name" in error("report", "unread", "--output", nameless)


def test_names_are_escaped_on_the_terminal(tmp_path, capsys):
    names = [os.fsencode(tmp_path) + name for name in (b"/\xff.jsonl", b"/\x1b[31m\n.jsonl")]
    paths = list(map(os.fsdecode, names))
    for path in paths:
        with open(path, "wb") as file:
            file.write(Record().start().train(10, 60).text().encode() + b"x\n")
    main(["report", *paths])
    main(["report", paths[1], "--output", paths[0]])
    printed = capsys.readouterr().out
    assert "\x1b" not in printed and "\\x1b[31m\\n.jsonl: " in printed and "\\udcff" in printed
