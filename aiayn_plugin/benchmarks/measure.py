"""Time, memory and profiles of a function, and the results as JSON."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from ..atomic import write_file_atomically


def measure_time(function: Callable[[], Any], device: torch.device) -> tuple[Any, float]:
    """Return a function's result and its time in seconds."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    result = function()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return result, time.perf_counter() - start


def measure_peak_memory(function: Callable[[], Any], device: torch.device) -> int:
    """Return the peak bytes of tensors that a function allocates.

    On a CPU the function must not free older tensors: the profiler may count those frees too.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        function()
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = function()  # noqa: F841  kept, so that it is not freed while it is counted
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    allocated = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        allocated += event.nbytes()
        peak = max(peak, allocated)
    return peak


def profile_table(function: Callable[[], Any], device: torch.device) -> str:
    """Return a table of the operations that take most of a function's time."""
    activities, key = [ProfilerActivity.CPU], "self_cpu_time_total"
    if device.type == "cuda":
        activities, key = [*activities, ProfilerActivity.CUDA], "self_cuda_time_total"
    with profile(activities=activities) as profiler:
        measure_time(function, device)
    return profiler.key_averages().table(sort_by=key, row_limit=20, max_name_column_width=60)


def write_json(results: Any, path: Path) -> None:
    """Write the results of a benchmark."""
    with write_file_atomically(path) as temporary:
        temporary.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
