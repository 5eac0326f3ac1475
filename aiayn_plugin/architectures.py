"""§6.2, Table 3: the named configurations, as one table of overrides over base."""

from typing import Any

#: §3, §5: the base model and its training. d_k and d_v None mean d_model / h. tokens_per_update
#: counts the target side without padding, over all devices. The paper wrote a checkpoint every
#: 10 minutes, in which its machine made 1,500 updates of base or 600 of big, and averaged the
#: last 5 or 20.
BASE: dict[str, Any] = {
    "N": 6,
    "d_model": 512,
    "d_ff": 2048,
    "h": 8,
    "d_k": None,
    "d_v": None,
    "dropout": 0.1,
    "label_smoothing": 0.1,
    "warmup_updates": 4000,
    "tokens_per_update": 25_000,
    "max_update": 100_000,
    "save_interval_updates": 1_500,
    "keep_interval_updates": 5,
}

BIG: dict[str, Any] = {
    "d_model": 1024,
    "d_ff": 4096,
    "h": 16,
    "dropout": 0.3,
    "max_update": 300_000,
    "save_interval_updates": 600,
    "keep_interval_updates": 20,
}

#: Not in the paper: sized to learn a small corpus on a CPU.
TINY: dict[str, Any] = {
    "N": 2,
    "d_model": 128,
    "d_ff": 512,
    "h": 4,
    "warmup_updates": 1000,
    "tokens_per_update": 1_500,
    "max_update": 2_000,
    "save_interval_updates": 100,
}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "aiayn_base": {},
    "aiayn_big": BIG,
    "aiayn_big_en_fr": {**BIG, "dropout": 0.1},
    "aiayn_tiny": TINY,
}


def settings(arch: str) -> dict[str, Any]:
    """All settings of a named architecture: the model's, and those of its training."""
    return {**BASE, **ARCHITECTURES[arch]}
