"""The estimate of a run's time after its first updates."""

import re

from commands import TRAIN


def test_the_time_a_run_takes_is_estimated_once(run, corpus, tmp_path):
    log = run(
        *("fairseq-train", corpus, *TRAIN, "--batch-size", "8", "--max-update", "50"),
        *("--disable-validation", "--no-save", "--save-dir", tmp_path),
    )
    assert log.returncode == 0, log.stderr
    estimates = re.findall(r"\| (\d+ updates took .*)", log.stdout + log.stderr)
    times = r"20 updates took \d+ .*: the remaining 29 will take about \d+ (min|s)( \d+ s)?"
    assert len(estimates) == 1 and re.fullmatch(times, estimates[0])
