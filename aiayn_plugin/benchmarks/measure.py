"""What the benchmarks measure with, and how they keep their results."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile


def timed(work: Callable[[], Any], device: torch.device) -> tuple[Any, float]:
    """Return what work returns, and its seconds."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    result = work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return result, time.perf_counter() - start


def peak_memory(work: Callable[[], Any], device: torch.device) -> int:
    """Return the most bytes of tensors that work holds at once, beyond those held before it."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = work()  # noqa: F841  held, so that it is not freed while it is counted
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def profiled(work: Callable[[], Any], device: torch.device) -> str:
    """Return a table of the operations that work spends its time in, the longest first."""
    activities, key = [ProfilerActivity.CPU], "self_cpu_time_total"
    if device.type == "cuda":
        activities, key = [*activities, ProfilerActivity.CUDA], "self_cuda_time_total"
    with profile(activities=activities) as profiler:
        timed(work, device)
    return profiler.key_averages().table(sort_by=key, row_limit=20, max_name_column_width=60)


def reason(output: str) -> str:
    """Return why a command failed: its last line, without the name of a program or an exception.

    Of "aiayn: error: no data" it is "no data", and likewise of the end of a stack trace.
    """
    lines = output.strip().splitlines() or ["it says nothing"]
    return re.sub(r"^[\w.-]+: (error: )?", "", lines[-1])


def write_json(results: Any, path: Path) -> None:
    """Write the results of a benchmark, for machines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
