"""What training and searching set up in their process: idle threads sleep, memory is bounded."""

import os
import sys

import pytest
import torch
from commands import TRAIN

TRAINING = """
from fairseq_cli.train import cli_main
cli_main()
"""
SEARCH_ON_A_BUSY_MACHINE = """
import os, subprocess
from aiayn_plugin.kernels.cpu_runtime import prepare_cpu_for_search
loop = "import time; print(flush=True)\\nwhile time.process_time() < 60: pass"
command = [sys.executable, "-c", loop]
others = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in os.sched_getaffinity(0)]
for other in others:
    other.stdout.readline()
prepare_cpu_for_search()
for other in others:
    other.kill()
    other.wait()
"""
MATMULS_OF_150_SIZES = """
import torch
from aiayn_plugin.kernels.cpu_runtime import prepare_cpu
prepare_cpu()
for rows in (*range(1, 150), 1):
    torch.ops.mkldnn._linear_pointwise(torch.ones(rows, 8), torch.ones(8, 8), None, "none", [], "")
"""
#: Prints the CPU time that the process takes while it sleeps for 0.2 seconds between operations.
SLEEP_BETWEEN_OPERATIONS = """
x = torch.ones(1 << 18)
cpu_time = 0
for _ in range(100):
    x.add_(1)
    cpu_time -= time.process_time()
    time.sleep(0.002)
    cpu_time += time.process_time()
print("CPU time", cpu_time)
"""


pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")


@pytest.fixture
def cpu_time(succeed):
    """Run a program with arguments; return the seconds of CPU time of its idle threads after it."""

    def measure(program, *arguments):
        program = f"import sys, time, torch\n{program}{SLEEP_BETWEEN_OPERATIONS}"
        log = succeed(sys.executable, "-c", program, *arguments, env={"OMP_NUM_THREADS": "2"})
        return float(log.stdout.split("CPU time")[1])

    return measure


def test_threads_of_a_training_run_sleep_while_they_wait(cpu_time, corpus, tmp_path):
    """With GNU's OpenMP they would otherwise spin for the whole 0.2 seconds."""
    arguments = [corpus, *TRAIN, "--disable-validation", "--max-update", "1", "--no-save"]
    assert cpu_time(TRAINING, *arguments, "--save-dir", tmp_path) < 0.1


def test_threads_of_a_search_sleep_on_a_busy_machine(cpu_time):
    """Spinning is faster on an idle machine, and slows everything down on a busy one."""
    assert 3 * cpu_time(SEARCH_ON_A_BUSY_MACHINE) < cpu_time("")


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN")
def test_code_for_batches_of_earlier_sizes_is_dropped(succeed):
    """oneDNN would keep a thousand matmuls, half a gigabyte of code."""
    log = succeed(sys.executable, "-c", MATMULS_OF_150_SIZES, env={"ONEDNN_VERBOSE": "2"})
    created = [line for line in log.stdout.splitlines() if ",create:cache_miss," in line]
    assert len(created) == 150, log.stdout[-1000:]
