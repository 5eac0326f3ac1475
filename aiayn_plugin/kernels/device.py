"""The device to compute on, and the instructions that its processor supports."""

import functools
import platform
import re
from pathlib import Path

import torch

from ..errors import InputError


def default_device() -> str:
    """Return "cuda" if there is a GPU, else "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def check_device(device: str) -> None:
    """Raise InputError if torch cannot compute on a device: "cuda" without a GPU, "meta", "x"."""
    try:
        torch.ones(1, device=device).sum().item()
    except Exception as error:  # its type depends on the device
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(
            f"--device {device} cannot be used ({reason}): give cpu, or cuda on a machine with a "
            "GPU"
        ) from None


def device_name(device: str) -> str:
    """Return the name of the GPU, or the CPU's number of processors and model."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    lines = _cpuinfo().splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(models)} × {models[0]}" if models else platform.processor() or platform.machine()


@functools.cache
def is_amd() -> bool:
    """Return whether the CPU is from AMD."""
    return "AuthenticAMD" in _cpuinfo()


def has_bfloat16() -> bool:
    """Return whether the CPU has bfloat16 instructions (AVX512-BF16)."""
    return getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)()


def has_vnni() -> bool:
    """Return whether the CPU has int8 instructions that accumulate in 32 bits (VNNI)."""
    return getattr(torch.cpu, "_is_vnni_supported", lambda: False)()


def is_out_of_memory(error: Exception) -> bool:
    """Return whether the error means that a GPU or the CPU has run out of memory."""
    messages = "out of memory|CUBLAS_STATUS_ALLOC_FAILED|(can't|failed to) allocate memory"
    return isinstance(error, MemoryError) or re.search(messages, str(error)) is not None


def _cpuinfo() -> str:
    """Return /proc/cpuinfo, which only Linux has, or ""."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
