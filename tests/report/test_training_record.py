"""The record of a training run: curves and facts, of whole and of damaged files."""

import json
import sys

import pytest
from training_runs import Record, interrupted

from aiayn_plugin.report.training_record import read_record
from aiayn_plugin.training.record import append_record

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture
def read(tmp_path):
    """`read(content)` returns what a run.jsonl with this content holds."""

    def read_content(content):
        path = tmp_path / "run.jsonl"
        content = content.text() if isinstance(content, Record) else content
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_record(path)

    return read_content


def updates(points):
    return [point.update for point in points]


def test_the_sessions_of_an_interrupted_run_are_joined(read):
    """Updates 30 and 40 were taken twice. The first start kept 20 updates and a validation, which
    took 21 minutes; the second start's clock begins at 0."""
    record = read(interrupted())
    assert updates(record.train) == [10, 20, 30, 40, 50]
    assert updates(record.valid) == [20, 50] and updates(record.epochs) == [50]
    assert [point.hours * 60 for point in record.train] == pytest.approx([10, 20, 31, 41, 51])
    assert [point.hours * 60 for point in record.valid] == pytest.approx([21, 51.5])
    assert record.restarts == [(20, pytest.approx(21 / 60))]
    assert (record.update, record.hours * 60) == (50, pytest.approx(21 + 1840 / 60))
    assert record.finished and not record.faults
    first, last = record.train[0].values, record.train[-1].values
    assert (first["loss"], first["lr"], last["lr"]) == (8.9, 1e-4, 5e-4)
    assert record.valid[-1].values == {"loss": 8.0, "ppl": 3.5, "bleu": 33.3}


def test_a_start_from_scratch_replaces_what_was_before(read):
    record = interrupted().start()
    assert read(record).update == 0 and not read(record).finished
    again = read(record.train(10, 60))
    assert updates(again.train) == [10] and again.hours == pytest.approx(1 / 60)
    assert again.restarts == []


def test_a_restart_of_a_finished_run_adds_nothing(read):
    record = read(interrupted().start(50).end(50))
    assert record.finished and [update for update, _ in record.restarts] == [20]


def test_the_time_until_ctrl_c_counts(read):
    stopped = Record().start().train(10, 60).add("save", 14, seconds=90)
    record = read(stopped.start(14).train(20, 30))
    assert (record.update, record.hours * 60) == (20, pytest.approx(2))
    assert updates(record.train) == [10, 20]


def test_only_the_first_validation_set_is_shown(read):
    record = (
        Record()
        .start()
        .valid(10, subset="train")
        .valid(10, subset="other")
        .valid(20, subset="train")
    )
    assert updates(read(record).valid) == [10, 20]


@pytest.mark.parametrize("cut", range(1, 300, 37))
def test_a_line_that_is_being_written_is_ignored(read, cut):
    content = interrupted().text().encode()
    record = read(content[:-cut])
    assert not record.faults
    assert not record.finished
    assert record.update == 50


def test_an_incomplete_line_affects_nothing_else(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(interrupted().text().encode()[:-5])
    append_record(path, {"event": "start", "update": 20})
    record = read_record(path)
    assert record.update == 20 and record.faults.total() == 1


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "run.jsonl").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        append_record(tmp_path / "run.jsonl", {"event": "start", "update": 20})
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    "line",
    [
        b"hello",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"null",
        b"a" * ((1 << 20) - 1),
        b'{"event": "interval", "update": -5, "values": {}}',
        b'{"event": "interval", "update": 1e400, "values": {}}',
        b'{"event": "interval", "update": "1", "values": {}}',
        b'{"event": "interval", "update": ' + b"9" * 5000 + b"}",
        b'{"event": ["start"], "update": 1}',
    ],
)
def test_a_damaged_line_affects_nothing_else(read, line):
    lines = interrupted().text().encode().splitlines()
    record = read(b"\n".join(part for good in lines for part in (good, line)) + b"\n")
    assert updates(record.train) == [10, 20, 30, 40, 50]
    assert record.faults == {"line that is not a record of a training run": len(lines)}


@pytest.mark.parametrize("value", [None, "8", "NaN", "Infinity", "1e31", "[1]", "true"])
def test_a_value_that_is_not_a_finite_number_is_left_out(read, value):
    text = Record().start().train(3, 1, loss=None).text()
    if value is not None:
        text = text.replace('"loss": null', f'"loss": {value}' if value != "8" else '"loss": "8"')
    record = read(text)
    assert record.train[0].values == {"ppl": 2.5, "wpb": 50.0, "bsz": 4.0}
    assert record.faults == {"value of loss that is not a finite number": 1}


def test_memory_is_bounded_and_time_is_linear(read, monkeypatch):
    """Twice the lines take at most twice the calls: nothing looks back over the whole file."""

    def count_calls(lines):
        text = Record().start().text() + "".join(
            json.dumps({"event": "interval", "update": n, "values": {"loss": 1.0}}) + "\n"
            for n in range(1, lines + 1)
        )
        calls = 0

        def count(frame, event, argument):
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            record = read(text)
        finally:
            sys.setprofile(None)
        assert len(record.train) <= 1000
        assert (record.train[0].update, record.train[-1].update) == (1, lines)
        return calls

    monkeypatch.setattr("aiayn_plugin.report.training_record.MAX_POINTS", 1000)
    assert count_calls(2400) < 2.2 * count_calls(1200)
