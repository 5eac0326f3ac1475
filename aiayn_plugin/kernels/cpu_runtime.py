"""How a process uses the CPU: when waiting threads sleep, and which memory is kept.

The user's environment variables take precedence.
"""

import ctypes
import functools
import os
import threading
import time
from pathlib import Path

import torch

#: mallopt's parameters (malloc.h) and their values: no mmap below 32 MiB, and freed memory returns
#: to the kernel only above 2 GiB; the heap grows by 256 MiB at a time. A returned page costs a page
#: fault when it is used again.
MALLOC_OPTIONS = {-3: 1 << 25, -1: 2**31 - 1, -2: 1 << 28}
#: Matmuls whose code oneDNN keeps, several times those of one batch; its default is 1,024. Batches
#: differ in size, so the code is rarely used again, and half a gigabyte of it slows nothing down.
CACHED_MATMULS = 128
#: Samples of the number of running threads, and the seconds between them: longer than idle threads
#: of this process spin.
SAMPLES, SAMPLING_INTERVAL = 20, 0.003


def prepare_cpu() -> None:
    """Make small operations cheaper in training; call it in the thread that computes."""
    _let_waiting_threads_sleep()
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(CACHED_MATMULS))
    if "GLIBC_TUNABLES" not in os.environ and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        for parameter, value in MALLOC_OPTIONS.items():
            libc.mallopt(parameter, value)


@functools.cache  # sampling the load takes up to 60 ms
def prepare_cpu_for_search() -> None:
    """Let waiting threads sleep on a busy machine, where spinning delays the thread they wait for.

    On an idle machine, spinning makes the search of a single sentence faster. Unlike in training,
    freed memory is returned, because a service runs for a long time.
    """
    if _is_machine_busy():
        _let_waiting_threads_sleep()


def _is_machine_busy() -> bool:
    """Return whether, in every sample, too few processors are free for this process's threads.

    The load average would also count a command that has just ended. See proc_loadavg(5).
    """
    if not hasattr(os, "sched_getaffinity"):
        return False
    free = len(os.sched_getaffinity(0)) - torch.get_num_threads()
    try:
        for _ in range(SAMPLES):
            runnable = Path("/proc/loadavg").read_text().split()[3].split("/")[0]
            if int(runnable) - 1 <= free:  # this thread is one of them
                return False
            time.sleep(SAMPLING_INTERVAL)
    except OSError:
        return False
    return True


@functools.cache  # the threads serve the whole process
def _let_waiting_threads_sleep() -> None:
    """Start threads that do nothing, one more than there are processors.

    An idle thread of GNU OpenMP spins for milliseconds before it sleeps, and takes that time from
    the threads that compute. With more threads than processors it sleeps almost immediately
    (libgomp's manual, GOMP_SPINCOUNT).
    """
    threads = torch.get_num_threads()
    is_set = os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}
    if threads == 1 or is_set or not hasattr(os, "sched_getaffinity"):
        return
    started = threading.Event()

    def hold_team() -> None:
        torch.set_num_threads(len(os.sched_getaffinity(0)) + 1)
        torch.zeros(1 << 20).add_(1)  # large enough to be split over all threads
        torch.set_num_threads(threads)  # for threads that start later
        started.set()
        threading.Event().wait()

    threading.Thread(target=hold_team, daemon=True).start()
    started.wait()
