"""The log of a training, in fairseq's formats, whole and broken."""

import io
import sys

import pytest
from logs import FORMAT, HYDRA, TrainLog, whole_log

from aiayn_plugin.report import log_parser as reader
from aiayn_plugin.report.history import record
from aiayn_plugin.report.log_parser import parse

pytestmark = pytest.mark.usefixtures("loud")


def read(text: bytes | str):
    return parse(io.BytesIO(text.encode() if isinstance(text, str) else text))


@pytest.mark.parametrize("head", [FORMAT, HYDRA], ids=["fairseq", "hydra"])
@pytest.mark.parametrize("form", ["simple", "json"])
def test_both_formats_say_the_same(form, head):
    log = read(whole_log(form, head).bytes())
    assert [point.update for point in log.train] == [10, 20, 30, 40, 50]
    assert [point.update for point in log.valid] == [20, 50]
    assert [point.update for point in log.epochs] == [50]
    assert log.train[0].values == {
        "loss": 8.9,
        "ppl": 2.5,
        "lr": 1e-4,
        "gnorm": 1.5,
        "wps": 1000,
        "wpb": 50,
        "bsz": 4,
    }
    assert log.valid[-1].values["bleu"] == 33.3
    assert log.facts == {
        "seed": "7",
        "source_words": "1000",
        "target_words": "1200",
        "devices": "2",
    }
    assert log.finished and log.faults == []
    assert log.last_time == "2026-01-01 12:18:10"


def test_hours_have_no_pauses_and_later_updates_win():
    """Updates 30 and 40 were taken twice. The first start kept 20 updates in 20 minutes and one
    more minute for the validation; the second one's clock begins at nought."""
    log = read(whole_log().bytes())
    (start,) = log.restarts()
    assert (start.update, start.hours * 60, start.time) == (20, 21, "2026-01-01 11:47:40")
    assert [point.hours * 60 for point in log.train] == pytest.approx([10, 20, 31, 41, 51])
    assert [point.hours * 60 for point in log.valid] == pytest.approx([21, 51.5])
    assert (log.update, log.hours * 60) == (50, pytest.approx(21 + 1840 / 60))


def test_a_start_from_nothing_forgets_what_was_before():
    log = whole_log()
    log.start()
    assert not any(read(log.bytes()).curves()) and not read(log.bytes()).finished
    log.inner(10, wall=60)
    again = read(log.bytes())
    assert [point.update for point in again.train] == [10] and again.hours == pytest.approx(1 / 60)
    assert again.restarts() == []


def test_a_start_that_the_log_does_not_show():
    """As with --log-file, which has neither heads nor messages."""
    log = TrainLog("json", "%(message)s")
    for update, wall in ((10, 60), (20, 120), (15, 30), (25, 90)):
        log.inner(update, wall)
    found = read(log.bytes())
    assert [point.update for point in found.train] == [10, 15, 25] and found.faults == []
    assert [point.hours * 60 for point in found.train] == pytest.approx([1, 2.5, 3.5])


def test_only_the_first_validation_set_is_shown():
    log = TrainLog()
    log.valid(10)
    log.valid(10, subset="valid1", bleu=1)
    log.valid(20)
    assert [point.update for point in read(log.bytes()).valid] == [10, 20]


@pytest.mark.parametrize("form", ["simple", "json"])
@pytest.mark.parametrize("name", ["train", "inner", "valid-x"])
def test_a_validation_set_of_any_name(form, name):
    log = TrainLog(form)
    log.inner(10, wall=60)
    log.valid(10, subset=name)
    log.epoch(20, wall=120)
    found = read(log.bytes())
    assert [[point.update for point in points] for points in found.curves()] == [[10], [10], [20]]


@pytest.mark.parametrize("head", [FORMAT, "%(message)s"], ids=["heads", "none"])
@pytest.mark.parametrize("restored, unseen", [(None, 0), (0, 0), (250, 250)])
def test_a_log_whose_beginning_is_elsewhere(head, restored, unseen):
    log = TrainLog("simple", head)
    if restored is not None:
        log.start(restored=restored)
    for update in (unseen + 100, unseen + 200):
        log.inner(update, wall=update)
    assert read(log.bytes()).unseen == unseen
    rotated = TrainLog("simple", head)
    for update in (5000, 5100, 5200):
        rotated.inner(update, wall=update)
    found = read(rotated.bytes())
    assert found.unseen == 4900
    assert found.faults == ["the first 4,900 updates are not in the log"]


def test_a_log_that_goes_on_still():
    text = whole_log().bytes()
    cut = text[: text.rindex(b"epoch 003 |") + 30]
    log = read(cut)
    lines = cut.count(b"\n") + 1
    assert log.faults == [f"line {lines} is cut off"] and not log.finished and log.update == 50
    # whatever the byte at which it is cut, a number is whole or it is not there
    known = {10: 8.9, 20: 8.8, 30: 8.7, 40: 8.6, 50: 8.5}
    for end in range(0, len(text), 37):
        for points in read(text[:end]).curves():
            for point in points:
                assert point.values["loss"] == known[point.update]


@pytest.mark.parametrize(
    "text, faults",
    [
        (b"", []),
        (b"hello\nworld\n", ["2 lines are not of fairseq-train's log, the first is line 1"]),
        (b"\n\n", []),
        (bytes(range(256)) * 4 + b"\n", None),
        (b"\xff\xfe\n", ["line 1 is no text in UTF-8"]),
        (
            b"a" * (1 << 21) + b"\nb\n",
            ["line 1 is longer than 1,048,576 bytes", "line 2 is not of fairseq-train's log"],
        ),
        (
            b'{"num_updates": {}, "loss": []}\n',
            ["line 1 is a record without the number of its update"],
        ),
        (b'{"num_updates": 1e400}\n', ["line 1 is a record without the number of its update"]),
        (b'{"num_updates": -5}\n', ["line 1 is a record without the number of its update"]),
        (b"[" * 100_000 + b"\n", ["line 1 is not of fairseq-train's log"]),
        (b'{"a":' * 100_000 + b"\n", ["line 1 is not of fairseq-train's log"]),
        (
            b"epoch 001: 1 / 2 loss=1, num_updates=" + b"9" * 5000 + b"\n",
            ["line 1 is a record without the number of its update"],
        ),
    ],
)
def test_what_cannot_be_read_is_counted(text, faults):
    log = read(text)
    assert not any(log.curves()) and log.starts == []
    assert faults is None or log.faults == faults


def test_noise_in_the_middle_costs_only_its_own_lines():
    lines = whole_log().bytes().splitlines(keepends=True)
    noise = [b"\x00\xff\x80\n", b"Traceback (most recent call last):\n"]
    log = read(
        b"".join(line for pair in zip(lines, noise * len(lines), strict=False) for line in pair)
    )
    assert [point.update for point in log.train] == [10, 20, 30, 40, 50]
    assert len(log.faults) == 2


def test_numbers_that_no_axis_has():
    for value in ("nan", "inf", "-inf", "1e31", "9" * 400):
        log = read(f"epoch 001: 1 / 2 loss={value}, num_updates=3\n")
        assert log.train[0].values == {} and log.faults == ["line 1 is not finite in loss"]
    for value, kept in (("x", {}), ("", {}), ("1e-320", {"loss": 0.0})):
        assert record(f"epoch 001: 1 / 2 loss={value}, num_updates=3") == (
            "inner",
            {"num_updates": 3.0, **kept},
        )


def test_times_that_no_clock_shows():
    log = TrainLog()
    log.inner(10, wall=60)
    log.valid(10)
    text = log.bytes().decode().replace("2026-01-01", "2026-99-99")
    assert [point.hours for point in read(text).valid] == pytest.approx([1 / 60])


def test_memory_is_bounded_and_work_grows_with_the_log():
    """Twice the lines are at most twice the calls: nothing looks back over the whole log."""
    line = "epoch 001: 1 / 2 loss=1, ppl=2, num_updates={}, wall={}\n"

    def calls(lines: int) -> int:
        text = "".join(line.format(n, n) for n in range(1, lines + 1))
        counted = 0

        def count(frame, event, argument):
            nonlocal counted
            counted += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            log = read(text)
        finally:
            sys.setprofile(None)
        assert len(log.train) <= reader.MOST_POINTS
        assert (log.train[0].update, log.train[-1].update) == (1, lines)
        return counted

    few, many = calls(12_000), calls(24_000)
    assert many < 2.2 * few


def test_any_number_of_starts():
    log = TrainLog()
    log.start()
    found = read(log.bytes() * 3000)
    assert len(found.starts) == 1 and found.faults == []
    log = TrainLog()
    for update in range(1100):
        log.start(restored=update)
        log.inner(update + 1, wall=1)
    found = read(log.bytes())
    assert len(found.starts) == reader.MOST_STARTS
    assert found.faults[0].startswith("100 lines are a start beyond 1,000")


def test_the_table_of_settings(training_log):
    log = read(training_log)
    rows = {row.name: (row.paper, row.run) for row in log.settings}
    assert log.architecture == "aiayn_tiny"
    assert rows["d_model"] == ("512", "64") and rows["adam_betas"] == ("(0.9, 0.98)",) * 2
    assert len(log.settings) == 27 and log.faults == []


@pytest.fixture
def training_log() -> bytes:
    """The head of a log with the plugin's own table in it, twice as after a restart."""
    from models import configuration

    from aiayn_plugin.fairseq_plugin.training_log import circumstances, table

    cfg = configuration("--arch", "aiayn_tiny", "--d-model", "64")
    log = TrainLog()
    for _ in range(2):
        log.start()
        log.say(f"the paper's settings and this run's:\n{table(cfg)}")
        for name, value in circumstances(cfg).items():
            log.say(f"{name}: {value}")
        log.say("Transformer(\n  (encoder): X(\n  )\n)")
    return log.bytes()


def test_what_a_training_says_of_itself(training_log):
    import torch

    facts = read(training_log).facts
    assert f"torch {torch.__version__}" in facts["versions"] and facts["device"]
    assert facts["command"].split()[0] in sys.argv[0]
