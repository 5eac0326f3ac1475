"""The estimate of how long a run will take."""

import itertools
import time

import pytest

from aiayn_plugin.training.remaining_time import RemainingTime


@pytest.mark.parametrize(
    "seconds, last_update, estimates",
    [
        (2, 150, ["20 updates took 40 s: the remaining 129 will take about 4 min 18 s"]),
        (30, 150, ["2 updates took 1 min: the remaining 147 will take about 1 h 13 min"]),
        (2, 0, []),
    ],
)
def test_the_first_updates_give_one_estimate(monkeypatch, seconds, last_update, estimates):
    """Each update takes `seconds` and begins twice, as with two batches."""
    monkeypatch.setattr(time, "monotonic", itertools.count(step=seconds).__next__)
    remaining_time = RemainingTime(last_update)
    lines = [remaining_time.begin_update(update) for update in range(1, 151) for _ in range(2)]
    monkeypatch.undo()
    assert [line for line in lines if line] == estimates
