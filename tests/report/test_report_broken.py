"""Reports on runs in which something is missing, broken or hostile."""

import json
import os
import shutil

import pytest
from logs import TrainLog
from training_runs import text_of, training_log

from aiayn_plugin.cli import main
from aiayn_plugin.errors import InputError
from aiayn_plugin.report.run import Row, read_run, typed

pytestmark = pytest.mark.usefixtures("loud")


@pytest.mark.parametrize(
    "spoil, said",
    [
        (lambda run: (run / "train.log").unlink(), "Not there: train.log, checkpoints"),
        (lambda run: (run / "train.log").write_bytes(b""), "no record of fairseq-train"),
        (
            lambda run: (run / "train.log").write_bytes(b"\xff\x00" * 999 + b"\n"),
            "no text in UTF-8",
        ),
        (lambda run: (run / "train.log").write_bytes(training_log().bytes()[:-9]), "is cut off"),
        (
            lambda run: [(run / name).unlink() for name in ("generate.log", "generate-valid.log")],
            "Not there: generate.log.",
        ),
        (
            lambda run: [
                (run / name).unlink() or os.mkfifo(run / name)
                for name in ("train.log", "generate.log")
            ],
            "train.log is no regular file",
        ),
        (
            lambda run: [(run / "train.log").unlink(), (run / "train.log").symlink_to("/dev/zero")],
            "train.log is no regular file",
        ),
        (
            lambda run: (run / "generate.log").write_text("H-1\t0\ta\n"),
            "no hypothesis for sentence 0",
        ),
        (lambda run: (run / "generate.log").write_bytes(b"\xff\n"), "generate.log: "),
        (lambda run: (run / "data").unlink(), "data/text.json"),
        (
            lambda run: [(run / "train.log").unlink(), (run / "model.pt").write_bytes(b"PK\3\4")],
            "model.pt is not a checkpoint",
        ),
        (
            lambda run: (run / "train.log").write_text(
                (run / "train.log")
                .read_text()
                .replace(
                    "d_model                 512                                 128",
                    f"{'d_model':<24}{'512':<36}__import__('os').abort()",
                )
            ),
            "d\\_model is",
        ),
    ],
)
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
    for path, message in (
        (tmp_path / "none", "is missing"),
        (tmp_path, "holds no run"),
        (tmp_path / "pipe", "is no regular file"),
    ):
        with pytest.raises(SystemExit, match=message):
            main(["report", str(path)])
    for wrong in (["--tflops", "0"], ["--follow", "0"]):
        with pytest.raises(SystemExit, match="must be"):
            main(["report", str(tmp_path), *wrong])
    for nameless in (".", "", "..", "/"):
        with pytest.raises(SystemExit, match="names no file"):
            main(["report", "nothing is read before", "--output", nameless])


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


@pytest.mark.parametrize(
    "line",
    [
        "num. shared model params: ,",
        "9 updates per epoch, of , target and , source tokens",
        "9 updates per epoch, of " + "9" * 280 + " target and 7 source tokens",
        "epoch 001: 1 / 2 loss=1, bsz=1e-320, wpb=1e29, num_updates=7, wall=1e29",
    ],
)
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


@pytest.mark.parametrize(
    "name, value",
    [
        ("d_model", "0"),
        ("N", "9" * 90),
        ("h", "True"),
        ("d_k", "[" * 90),
        ("dropout", "1e999"),
        ("positions", "x"),
        ("adam_betas", "0.9"),
        ("N", "None"),
        ("max_update", "9" * 5000),
        ("d_model", "7"),
    ],
)
def test_settings_that_are_none(name, value):
    with pytest.raises(InputError, match=name):
        typed([Row("d_model", "-", "512"), Row(name, "-", value)])
