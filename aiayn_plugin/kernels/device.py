"""Where a model computes."""

import platform
from pathlib import Path

import torch

from ..errors import InputError


def check_device(device: str) -> None:
    """Raise InputError if torch cannot compute on a device: "cuda" without a GPU, "meta", "x"."""
    try:
        torch.ones(1, device=device).sum().item()
    except Exception as error:  # torch has many for a device that it lacks
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(
            f"--device {device} cannot be used ({reason}): give cpu, or cuda on a "
            "machine with a GPU"
        ) from None


def device_name(name: str) -> str:
    """Return the name of the GPU, or the number and the name of the processors."""
    if name.startswith("cuda"):
        return torch.cuda.get_device_name(name)
    try:
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor()
    models = [line.split(":", 1)[1].strip() for line in info if line.startswith("model name")]
    return f"{len(models)} × {models[0]}" if models else platform.processor()
