"""§6.2, §6.3, Table 3: the named configurations, as one table of overrides over base."""

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
    "positions": "sinusoids",
    "feed_forward_gain": 1.0,
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

#: Not in the paper: sized to learn a small corpus on a CPU, in few updates at a high rate, for
#: which it starts with a smaller feed-forward network: beside one of full size, a post-norm layer's
#: attention is lost at first.
TINY: dict[str, Any] = {
    "N": 2,
    "d_model": 128,
    "d_ff": 512,
    "h": 4,
    "feed_forward_gain": 0.5,
    "warmup_updates": 1000,
    "tokens_per_update": 1_500,
    "max_update": 2_000,
    "save_interval_updates": 100,
}

#: The rows of Table 3 are named by their letter and what they change.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "aiayn_base": {},
    "aiayn_a_h1": {"h": 1},
    "aiayn_a_h4": {"h": 4},
    "aiayn_a_h16": {"h": 16},
    "aiayn_a_h32": {"h": 32},
    "aiayn_b_dk16": {"d_k": 16},
    "aiayn_b_dk32": {"d_k": 32},
    "aiayn_c_n2": {"N": 2},
    "aiayn_c_n4": {"N": 4},
    "aiayn_c_n8": {"N": 8},
    "aiayn_c_d256": {"d_model": 256},
    "aiayn_c_d1024": {"d_model": 1024},
    "aiayn_c_ff1024": {"d_ff": 1024},
    "aiayn_c_ff4096": {"d_ff": 4096},
    "aiayn_d_dropout00": {"dropout": 0.0},
    "aiayn_d_dropout02": {"dropout": 0.2},
    "aiayn_d_smoothing00": {"label_smoothing": 0.0},
    "aiayn_d_smoothing02": {"label_smoothing": 0.2},
    "aiayn_e_learned": {"positions": "learned"},
    "aiayn_big": BIG,
    "aiayn_big_en_fr": {**BIG, "dropout": 0.1},
    "aiayn_parser": {"N": 4, "d_model": 1024},
    "aiayn_tiny": TINY,
}

#: Table 3's parameters, in millions, where it gives them.
PAPER_MILLIONS = {
    "aiayn_base": 65,
    "aiayn_b_dk16": 58,
    "aiayn_b_dk32": 60,
    "aiayn_c_n2": 36,
    "aiayn_c_n4": 50,
    "aiayn_c_n8": 80,
    "aiayn_c_d256": 28,
    "aiayn_c_d1024": 168,
    "aiayn_c_ff1024": 53,
    "aiayn_c_ff4096": 90,
    "aiayn_big": 213,
}


def settings(arch: str) -> dict[str, Any]:
    """All settings of a named architecture: the model's, and those of its training."""
    return {**BASE, **ARCHITECTURES[arch]}


def parameters(arch: str, vocabulary: int, max_positions: int = 1024) -> int:
    """How many weights a named architecture has, with one matrix of vocabulary × d_model for both
    embeddings and the projection; learned positions are max_positions on each side."""
    s = settings(arch)
    d_k, d_v = (s[name] or s["d_model"] // s["h"] for name in ("d_k", "d_v"))
    attention = 2 * s["d_model"] * s["h"] * (d_k + d_v)  # W^Q, W^K, W^V, W^O
    feed_forward = 2 * s["d_model"] * s["d_ff"] + s["d_ff"] + s["d_model"]
    norm = 2 * s["d_model"]
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    learned = 2 * max_positions if s["positions"] == "learned" else 0
    return (vocabulary + learned) * s["d_model"] + s["N"] * (encoder + decoder)


def table(vocabulary: int = 37_000) -> str:
    """All architectures, one a line: sizes, P_drop, ε_ls, parameters, and the paper's figure."""
    head = ("--arch", "N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "ε_ls", "updates",
            "parameters", "paper")
    rows: list[tuple[str, ...]] = [head]
    for arch in ARCHITECTURES:
        s = settings(arch)
        paper = PAPER_MILLIONS.get(arch)
        rows.append((
            arch, *(str(s[name]) for name in ("N", "d_model", "d_ff", "h")),
            *(str(s[name] or s["d_model"] // s["h"]) for name in ("d_k", "d_v")),
            *(str(s[name]) for name in ("dropout", "label_smoothing")),
            f"{s['max_update']:,}", f"{parameters(arch, vocabulary):,}",
            f"{paper}M" if paper else "",
        ))  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
