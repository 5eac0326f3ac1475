"""What the benchmarks measure with, and how they keep what they found."""

import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile


def timed(work: Callable[[], Any], device: torch.device) -> tuple[Any, float]:
    """What work returns, and its seconds."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    result = work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return result, time.perf_counter() - start


def peak_memory(work: Callable[[], Any], device: torch.device) -> int:
    """The most bytes of tensors that work holds at once, beyond those that are there already."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        kept = work()  # noqa: F841  held, so that it is not freed while it is counted
    events = [e for e in found.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def profiled(work: Callable[[], Any], device: torch.device) -> str:
    """A table of the operations that work spends its time in, the longest first."""
    activities, key = [ProfilerActivity.CPU], "self_cpu_time_total"
    if device.type == "cuda":
        activities, key = [*activities, ProfilerActivity.CUDA], "self_cuda_time_total"
    with profile(activities=activities) as found:
        timed(work, device)
    return found.key_averages().table(sort_by=key, row_limit=20, max_name_column_width=60)


def device_name(name: str) -> str:
    """The GPU, or the processors and how many there are."""
    if name.startswith("cuda"):
        return torch.cuda.get_device_name(name)
    try:
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor()
    models = [line.split(":", 1)[1].strip() for line in info if line.startswith("model name")]
    return f"{len(models)} × {models[0]}" if models else platform.processor()


def write_json(found: Any, path: Path) -> None:
    """Write what a benchmark found, for machines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
