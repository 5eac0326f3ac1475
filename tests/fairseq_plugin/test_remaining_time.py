"""The estimate of a run's time after its first updates."""

import re

import pytest
from models import rates_taken, trainer


@pytest.mark.usefixtures("loud")
def test_the_time_a_run_takes_is_estimated_once(corpus, tmp_path, caplog):
    caplog.set_level("INFO")
    training, epoch = trainer(corpus, tmp_path, "--batch-size", "8", "--max-update", "1000")
    rates_taken(training, epoch, 50)
    estimates = [r.getMessage() for r in caplog.records if "will take about" in r.getMessage()]
    assert len(estimates) == 1
    times = r"20 updates took (\d+ \w+)+: the remaining 979 will take about \d+ (min|s)( \d+ s)?"
    assert re.fullmatch(times, estimates[0])
