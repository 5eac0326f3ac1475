"""Reports: one run, several, and whatever is missing, broken or hostile in them."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from logs import TrainLog, whole_log
from models import configuration

from aiayn_plugin.boundary.log import table
from aiayn_plugin.cli import main
from aiayn_plugin.cli.report import stem_of
from aiayn_plugin.errors import InputError
from aiayn_plugin.text.pipeline import TextPipeline
from aiayn_plugin.text.scores import score
from aiayn_plugin.text.settings import TextSettings
from aiayn_plugin.view.cost import cost_of
from aiayn_plugin.view.curves import Line, curves, look
from aiayn_plugin.view.document import to_markdown
from aiayn_plugin.view.records import Point, TrainingLog
from aiayn_plugin.view.report import report
from aiayn_plugin.view.run import Row, read_run, typed
from aiayn_plugin.view.tables import is_newstest, of_seeds, table_3
from aiayn_plugin.view.words import power

HOSTILE = "<script>document.title='run'</script><img src=x onerror=\"document.title='run'\">|`"


@pytest.fixture(autouse=True)
def loud():
    """fairseq's progress bars log, whatever an earlier test has turned off."""
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="session")
def data(prepare):
    return prepare(300, 20, 40)


def training_log(*flags: str, restarted: bool = True) -> TrainLog:
    """Return a log with the plugin's table in it."""
    log = whole_log() if restarted else TrainLog()
    if not restarted:
        log.start()
        log.inner(10, wall=3600, wps=100, wpb=50, bsz=4, lr=1e-4)
        log.valid(10)
    log.say("the paper's settings and this run's:\n"
            + table(configuration("--arch", "aiayn_tiny", *flags)))
    log.say("num. shared model params: 1,234 (num. trained: 1,234)")
    return log


def generated(data, split: str, wrong: int = 0, text: str = HOSTILE) -> str:
    """Return what fairseq-generate prints for references, `wrong` of them translated as `text`."""
    pipeline = TextPipeline.load(data)
    raw = (data / f"{split}.raw.de").read_text(encoding="utf-8").splitlines()
    lines = [text if number < wrong else pipeline.encode(line, "de")
             for number, line in enumerate(raw)]  # fmt: skip
    return "".join(f"H-{number}\t-0.5\t{line}\n" for number, line in enumerate(lines))


@pytest.fixture
def make(tmp_path, data):
    """`make(name, wrong, flags…)` makes a run's directory, with so many hostile translations."""

    def make_run(name: str, wrong: int = 2, *flags: str):
        run = tmp_path / name
        run.mkdir(parents=True)
        (run / "data").symlink_to(data)
        (run / "train.log").write_bytes(training_log(*flags).bytes())
        (run / "generate.log").write_text(generated(data, "test", wrong), encoding="utf-8")
        (run / "generate-valid.log").write_text(generated(data, "valid", wrong), encoding="utf-8")
        return run

    return make_run


def text_of(*runs, **options) -> str:
    """Return the Markdown of a report."""
    found = report([read_run(run) for run in runs], **options)
    stem = runs[0].parent / "text"
    return found.write(stem)[1].read_text(encoding="utf-8")


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
    colours = {scheme: (browser.scheme(scheme), browser.js(
        "[getComputedStyle(document.body).backgroundColor, "
        "getComputedStyle(document.querySelector('figure svg text')).fill, "
        "getComputedStyle(document.body).color]"))[1] for scheme in ("light", "dark")}  # fmt: skip
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


@pytest.mark.parametrize("flags, row", [
    (("--arch", "aiayn_base"), "aiayn_base | some.log | 6 | 512"),
    (("--arch", "aiayn_c_n2"), "aiayn_c_n2 | some.log | 2 |"),
    (("--arch", "aiayn_base", "--dropout", "0.2"), "aiayn_d_dropout02 | some.log |"),
    (("--arch", "aiayn_e_learned"), "aiayn_e_learned | some.log" + 8 * " | " + " | learned"),
    (("--arch", "aiayn_base", "--d-ff", "99"), None),
])  # fmt: skip
def test_the_row_of_table_3_that_a_run_is(tmp_path, flags, row):
    log = tmp_path / "some.log"
    log.write_bytes(training_log(*flags).bytes())
    text = text_of(log)
    assert (f"| {row}" in text) if row else ("is no row of Table 3" in text)
    assert not row or "| aiayn_base | " in text, "what an empty cell stands for"


def test_costs_both_ways(tmp_path):
    log = tmp_path / "some.log"
    whole = training_log(restarted=False)
    whole.say("rank   0: capabilities =  6.0  ; total memory = 15.9 GB ; name = Tesla P100-X  ")
    log.write_bytes(whole.bytes())
    assert "6.8 · 10¹⁶: 3,600 s × 2 devices × 9.5 TFLOPS" in text_of(log)
    assert "1.4 · 10¹⁶: 3,600 s × 2 devices × 2.0 TFLOPS" in text_of(log, tflops=2.0)
    log.write_bytes(training_log(restarted=False).bytes())
    assert "the log does not name the device: give --tflops" in text_of(log)


def test_several_runs_in_the_layout_of_table_3(make, browser):
    runs = [make("base", 2), make("c_n2", 9, "--N", "1"), make("_$x$ <b>", 2, "--positions",
                                                               "learned")]  # fmt: skip
    text = text_of(*runs)
    rows = [line for line in text.splitlines() if line.startswith(("| base |", "| **base** |",
                                                                   "| c_n2 |"))]  # fmt: skip
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
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": 1046, "height": 720, "deviceScaleFactor": 1, "mobile": False})
    try:
        assert browser.js("document.documentElement.scrollWidth <= innerWidth"), "paper is wide"
        assert browser.js("getComputedStyle(document.querySelector('.wide')).overflowX"
                          ) == "visible"  # fmt: skip
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "screen"})
        browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": 420, "height": 900, "deviceScaleFactor": 1, "mobile": False})
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
    assert of_seeds(runs[:2]) == ["base, seed2 differ in the seed alone: PPL 2.50 to 2.50, BLEU "
                                  f"{values[0]:.2f} to {values[1]:.2f}"]
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


def test_where_reports_go(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b.log").touch()
    assert stem_of(None, [tmp_path / "a"]) == tmp_path / "a" / "report"
    assert stem_of(None, [tmp_path / "b.log"]) == tmp_path / "report"
    assert stem_of(None, [tmp_path / "a", tmp_path / "b.log"]) == tmp_path / "report"
    assert stem_of(tmp_path / "x.html", []) == stem_of(tmp_path / "x", []) == tmp_path / "x"
    assert stem_of(tmp_path / "v1.5", []) == tmp_path / "v1.5"


@pytest.mark.parametrize("spoil, said", [
    (lambda run: (run / "train.log").unlink(), "Not there: train.log, checkpoints"),
    (lambda run: (run / "train.log").write_bytes(b""), "no record of fairseq-train"),
    (lambda run: (run / "train.log").write_bytes(b"\xff\x00" * 999 + b"\n"), "no text in UTF-8"),
    (lambda run: (run / "train.log").write_bytes(training_log().bytes()[:-9]), "is cut off"),
    (lambda run: [(run / name).unlink() for name in ("generate.log", "generate-valid.log")],
     "Not there: generate.log."),
    (lambda run: [(run / name).unlink() or os.mkfifo(run / name)
                  for name in ("train.log", "generate.log")], "train.log is no regular file"),
    (lambda run: [(run / "train.log").unlink(), (run / "train.log").symlink_to("/dev/zero")],
     "train.log is no regular file"),
    (lambda run: (run / "generate.log").write_text("H-1\t0\ta\n"), "no hypothesis for sentence 0"),
    (lambda run: (run / "generate.log").write_bytes(b"\xff\n"), "generate.log: "),
    (lambda run: (run / "data").unlink(), "data/text.json"),
    (lambda run: [(run / "train.log").unlink(), (run / "model.pt").write_bytes(b"PK\3\4")],
     "model.pt is no checkpoint"),
    (lambda run: (run / "train.log").write_text((run / "train.log").read_text().replace(
        "d_model                 512                                 128",
        "d_model                 512                                 __import__('os').abort()")),
     "d\\_model is"),
])  # fmt: skip
def test_what_is_missing_or_broken_is_named(make, spoil, said, capsys):
    run = make("run")
    spoil(run)
    main(["report", str(run)])
    text = (run / "report.md").read_text(encoding="utf-8")
    assert said.replace("\\", "") in text.replace("\\", "")
    assert "Table 2" in text and "Traceback" not in text
    assert json.loads((run / "report.json").read_text(encoding="utf-8"))


def test_what_is_no_run(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    for path, message in ((tmp_path / "none", "is missing"), (tmp_path, "holds no run"),
                          (tmp_path / "pipe", "is no regular file")):  # fmt: skip
        with pytest.raises(SystemExit, match=message):
            main(["report", str(path)])
    for wrong in (["--tflops", "0"], ["--follow", "0"]):
        with pytest.raises(SystemExit, match="must be"):
            main(["report", str(tmp_path), *wrong])
    for nameless in (".", "", "..", "/"):
        with pytest.raises(SystemExit, match="names no file"):
            main(["report", "nothing is read before", "--output", nameless])


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


def test_one_of_the_translations_is_enough(make):
    run = make("run")
    (run / "generate.log").unlink()
    assert read_run(run).missing == [] and "Not there" not in text_of(run)


def test_a_training_that_diverged(tmp_path):
    log = training_log(restarted=False)
    log.valid(20, loss="nan", ppl="inf")
    (tmp_path / "some.log").write_bytes(log.bytes())
    text = text_of(tmp_path / "some.log")
    assert "| validation | no number after 20 updates; least loss 8.900 |" in text
    assert "is not finite in loss" in text and "is not finite in ppl" in text


def test_what_a_log_leaves_open(tmp_path):
    path = tmp_path / "some.log"
    headless = TrainLog("simple", "%(message)s")
    headless.inner(10, wall=60)
    path.write_bytes(headless.bytes())
    assert "| training | whether it finished is not known |" in text_of(path)
    log = training_log(restarted=False)
    path.write_bytes(log.bytes())
    text = text_of(path)
    assert "| source tokens of an update | not recorded |" in text
    assert "are taken to be as many as the target's" in text
    log.start(restored=10)
    log.say("done training in 1 seconds")
    path.write_bytes(log.bytes())
    assert "| time | 1 h |" in text_of(path), "the second start added nothing"
    late = TrainLog()
    late.start(restored=90_000)
    late.inner(90_100, wall=14)
    path.write_bytes(late.bytes())
    text = text_of(path, tflops=1.0)
    assert text.count("the first 90,000 updates are not in the log") == 2


@pytest.mark.parametrize("line", [
    "num. shared model params: ,", "9 updates per epoch, of , target and , source tokens",
    "9 updates per epoch, of " + "9" * 280 + " target and 7 source tokens",
    "epoch 001: 1 / 2 loss=1, bsz=1e-320, wpb=1e29, num_updates=7, wall=1e29",
])  # fmt: skip
def test_a_bad_number_costs_only_itself(tmp_path, line):
    log = training_log()
    log.say(line)
    (tmp_path / "some.log").write_bytes(log.bytes())
    assert "50 of 2,000" in text_of(tmp_path / "some.log", tflops=9e5)


def test_names_that_no_terminal_should_see(tmp_path, capsys):
    names = [os.fsencode(tmp_path) + name for name in (b"/\xff.log", b"/\x1b[31m\n.log")]
    paths = list(map(os.fsdecode, names))
    for path in paths:
        with open(path, "wb") as file:
            file.write(training_log().bytes() + b"x\n")
    main(["report", *paths])
    main(["report", paths[1], "--output", paths[0]])
    said = capsys.readouterr().out
    assert "\x1b" not in said and "\\x1b[31m\\n.log: " in said and "\\udcff" in said


def test_settings_of_a_checkpoint_without_a_log(make, model_dir):
    run = make("run")
    (run / "train.log").unlink()
    shutil.copyfile(model_dir / "model.pt", run / "model.pt")
    found = read_run(run)
    assert found.architecture == "aiayn_tiny" and found.settings is not None
    assert {row.name: row.run for row in found.rows}["criterion"].startswith("aiayn_label")


@pytest.mark.parametrize("name, value", [
    ("d_model", "0"), ("N", "9" * 90), ("h", "True"), ("d_k", "[" * 90), ("dropout", "1e999"),
    ("positions", "x"), ("adam_betas", "0.9"), ("N", "None"), ("max_update", "9" * 5000),
    ("d_model", "7"),
])  # fmt: skip
def test_settings_that_are_none(name, value):
    with pytest.raises(InputError, match=name):
        typed([Row("d_model", "-", "512"), Row(name, "-", value)])


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_run_is_followed_until_it_ends(tmp_path, interrupted):
    path, log = tmp_path / "train.log", training_log(restarted=False)
    path.write_bytes(log.bytes())
    command = [sys.executable, "-m", "aiayn_plugin.cli", "report", path, "--follow", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
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
    assert "http-equiv=\"refresh\"" not in (tmp_path / "report.html").read_text()
