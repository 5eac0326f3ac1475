"""What training sets up in its process: idle threads sleep."""

import os
import sys

import pytest
from commands import TRAIN

#: Trains, then prints the CPU time of 100 short operations in 0.2 seconds.
PROGRAM = """
import sys, time, torch
from fairseq_cli.train import cli_main
cli_main()
x = torch.ones(1 << 18)
start = time.process_time()
for _ in range(100):
    x.add_(1)
    time.sleep(0.002)
print("CPU time", time.process_time() - start)
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_threads_of_a_training_sleep_while_they_wait(run, corpus, tmp_path):
    """With GNU's OpenMP they would compute nothing for all of the 0.2 seconds."""
    command = [sys.executable, "-c", PROGRAM, corpus, *TRAIN, "--disable-validation"]
    log = run(
        *(*command, "--max-update", "1", "--no-save", "--save-dir", tmp_path),
        env={"OMP_NUM_THREADS": "2"},
    )
    assert log.returncode == 0, log.stderr
    assert float(log.stdout.split("CPU time")[1]) < 0.1
