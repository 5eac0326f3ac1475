"""The paper's values: base (§3, §5), the rows of Table 3 (§6.2, §6.3), and the search (§6.1).

Every other place takes them from here: the options of the commands, the configurations for Hydra,
the table at the head of a training's log.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from .errors import InputError

#: Positions: the paper's sinusoids, one learned vector for each position, fairseq's sinusoids.
POSITIONS = ("sinusoids", "learned", "fairseq")
#: Which of source embedding, target embedding and projection are one matrix (§3.4: all).
TIED = ("all", "target", "none")


def _setting(default: Any, meaning: str, choices: tuple[str, ...] | None = None) -> Any:
    """Return a field; what it means is its docstring and the help of its option."""
    return field(default=default, metadata={"help": meaning, "choices": choices})


def option(settings: type, name: str) -> Any:
    """Return a copy of a field, for the dataclass of a command's options."""
    known = settings.__dataclass_fields__[name]  # type: ignore[attr-defined]
    return field(default=known.default, metadata=known.metadata)


@dataclass
class ModelSettings:
    """The model (§3): what the paper varies, under the paper's names. The defaults are base's."""

    # fairseq cannot make a command-line option of `int | None`.
    N: int = _setting(6, "layers of each stack (§3.1)")
    d_model: int = _setting(512, "width of embeddings and sub-layer outputs (§3.1)")
    d_ff: int = _setting(2048, "inner width of the feed-forward network (§3.3)")
    h: int = _setting(8, "attention heads (§3.2.2)")
    d_k: Optional[int] = _setting(  # noqa: UP045
        None, "width of queries and keys; default: d_model / h"
    )
    d_v: Optional[int] = _setting(None, "width of values; default: d_model / h")  # noqa: UP045
    dropout: float = _setting(0.1, "P_drop on sub-layer outputs and embedding sums (§5.4)")
    attention_dropout: float = _setting(0.0, "dropout on the attention weights (none in §5.4)")
    attention_bias: bool = _setting(
        False, "biases in the projections of attention (none in §3.2.2)"
    )
    positions: str = _setting(
        "sinusoids",
        "the paper's sinusoids, learned vectors (Table 3, row E), fairseq's sinusoids",
        POSITIONS,
    )
    neighbourhood: Optional[int] = _setting(  # noqa: UP045
        None, "r of restricted self-attention (Table 1); default: all positions"
    )
    tie_embeddings: str = _setting(
        "all",
        "which share one matrix: source and target embedding and projection (§3.4), only the last "
        "two, or none",
        TIED,
    )
    feed_forward_gain: float = _setting(
        1.0, "factor on the Glorot initialisation of the feed-forward network"
    )
    checkpoint_activations: bool = _setting(
        False,
        "keep only attention's inputs for the backward pass, and compute the rest again there: "
        "less memory, slower",
    )

    def head_widths(self) -> tuple[int, int]:
        """Return d_k and d_v. Raises InputError if they do not follow from d_model and h."""
        if self.h < 1:
            raise InputError(f"h {self.h} must be at least 1")
        if None in (self.d_k, self.d_v) and self.d_model % self.h:
            raise InputError(
                f"d_model {self.d_model} is not divisible by h {self.h}: change one of them, or "
                "give --d-k and --d-v"
            )
        d_k = self.d_model // self.h if self.d_k is None else self.d_k
        d_v = self.d_model // self.h if self.d_v is None else self.d_v
        if min(d_k, d_v) < 1:
            raise InputError(f"d_k {d_k} and d_v {d_v} must be at least 1")
        return d_k, d_v


@dataclass
class TrainingSettings:
    """The training (§5). The defaults are base's."""

    label_smoothing: float = _setting(0.1, "epsilon_ls of §5.4; 0 means no label smoothing")
    adam_betas: tuple[float, float] = _setting((0.9, 0.98), "beta_1 and beta_2 of Adam (§5.3)")
    adam_eps: float = _setting(1e-9, "epsilon of Adam (§5.3), added after the bias correction")
    weight_decay: float = _setting(0.0, "none in §5.3")
    clip_norm: float = _setting(0.0, "none in §5.3: 0 clips no gradient")
    warmup_updates: int = _setting(4000, "warmup_steps of §5.3: updates until the rate's peak")
    tokens_per_update: int = _setting(
        25_000, "target tokens of an update, without padding, over all devices (§5.1)"
    )
    max_update: int = _setting(100_000, "updates (§5.2)")
    # The paper wrote a checkpoint every 10 minutes. Its machine made 1,500 updates of base in
    # that time, or 600 of big. The last 5 of base or 20 of big were averaged (§6.1).
    save_interval_updates: int = _setting(1_500, "updates between two checkpoints")
    keep_interval_updates: int = _setting(5, "checkpoints that are kept, to be averaged")


@dataclass(frozen=True)
class SearchSettings:
    """The search (§6.1): at most limit_a · (source tokens) + limit_b target tokens."""

    beam: int = 4
    alpha: float = 0.6
    limit_a: float = 1.0
    limit_b: int = 50

    def options(self) -> dict[str, Any]:
        """Return the settings under the names of fairseq-generate's options."""
        return {
            "beam": self.beam,
            "lenpen": self.alpha,
            "max_len_a": self.limit_a,
            "max_len_b": self.limit_b,
        }


#: Brackets and tags of the Penn Treebank, about.
TREE_SYMBOLS = 100
#: The search of trees (§6.3).
PARSING_SEARCH = SearchSettings(beam=21, alpha=0.3, limit_b=300)


@dataclass
class Settings(TrainingSettings, ModelSettings):
    """A named architecture: its model and its training."""

    #: The parameters that Table 3 gives, in millions.
    paper_millions: int | None = None


BIG: Mapping[str, Any] = {
    "d_model": 1024,
    "d_ff": 4096,
    "h": 16,
    "dropout": 0.3,
    "max_update": 300_000,
    "save_interval_updates": 600,
    "keep_interval_updates": 20,
}

#: Not in the paper: sized to learn a small corpus on a CPU, in few updates at a high rate. Its
#: feed-forward network starts at half the usual size: at full size it drowns out attention in the
#: first updates of a post-norm layer.
TINY: Mapping[str, Any] = {
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

#: §6.3. Words and brackets have no symbol in common, so there is no matrix for both (§3.4).
PARSER: Mapping[str, Any] = {"N": 4, "d_model": 1024, "tie_embeddings": "target"}

#: What each architecture changes of base. The rows of Table 3 are named by letter and change, with
#: the number of parameters that the table gives.
ARCHITECTURES: Mapping[str, Mapping[str, Any]] = {
    "aiayn_base": {"paper_millions": 65},
    "aiayn_a_h1": {"h": 1},
    "aiayn_a_h4": {"h": 4},
    "aiayn_a_h16": {"h": 16},
    "aiayn_a_h32": {"h": 32},
    "aiayn_b_dk16": {"d_k": 16, "paper_millions": 58},
    "aiayn_b_dk32": {"d_k": 32, "paper_millions": 60},
    "aiayn_c_n2": {"N": 2, "paper_millions": 36},
    "aiayn_c_n4": {"N": 4, "paper_millions": 50},
    "aiayn_c_n8": {"N": 8, "paper_millions": 80},
    "aiayn_c_d256": {"d_model": 256, "paper_millions": 28},
    "aiayn_c_d1024": {"d_model": 1024, "paper_millions": 168},
    "aiayn_c_ff1024": {"d_ff": 1024, "paper_millions": 53},
    "aiayn_c_ff4096": {"d_ff": 4096, "paper_millions": 90},
    "aiayn_d_dropout00": {"dropout": 0.0},
    "aiayn_d_dropout02": {"dropout": 0.2},
    "aiayn_d_smoothing00": {"label_smoothing": 0.0},
    "aiayn_d_smoothing02": {"label_smoothing": 0.2},
    "aiayn_e_learned": {"positions": "learned"},
    "aiayn_big": {**BIG, "paper_millions": 213},
    "aiayn_big_en_fr": {**BIG, "dropout": 0.1},
    "aiayn_parser": PARSER,
    "aiayn_tiny": TINY,
    "aiayn_parser_tiny": {**TINY, "N": 4, "tie_embeddings": "target"},
}
#: Those that are not the paper's, each with the one that it stands for.
SMALL: Mapping[str, str] = {"aiayn_tiny": "aiayn_base", "aiayn_parser_tiny": "aiayn_parser"}


def settings(arch: str) -> Settings:
    """Return all settings of a named architecture."""
    return Settings(**ARCHITECTURES[arch])


def parameters(arch: str, vocabulary: int, max_positions: int = 1024) -> int:
    """Return how many weights a named architecture has, with one vocabulary for both languages.

    A parser has it for the sentences, and TREE_SYMBOLS for the trees.
    """
    chosen = settings(arch)
    target = vocabulary if chosen.tie_embeddings == "all" else TREE_SYMBOLS
    return weights(chosen, vocabulary, target, max_positions)


def weights(s: ModelSettings, source: int, target: int, max_positions: int = 1024) -> int:
    """Return how many weights a model has. source, target: words of the two vocabularies.

    Embeddings and projection are one matrix, or as many as s.tie_embeddings says. Learned positions
    are max_positions on each side.
    """
    d_k, d_v = s.head_widths()
    attention = 2 * s.d_model * s.h * (d_k + d_v)  # W^Q, W^K, W^V, W^O
    if s.attention_bias:
        attention += s.h * (2 * d_k + d_v) + s.d_model
    feed_forward = 2 * s.d_model * s.d_ff + s.d_ff + s.d_model
    norm = 2 * s.d_model
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    learned = 2 * max_positions if s.positions == "learned" else 0
    words = {"all": target, "target": source + target, "none": source + 2 * target}
    return (words[s.tie_embeddings] + learned) * s.d_model + s.N * (encoder + decoder)


def table(vocabulary: int = 37_000) -> str:
    """Return a table of all architectures: sizes, P_drop, ε_ls, parameters, the paper's figure."""
    head = (
        "--arch",
        "N",
        "d_model",
        "d_ff",
        "h",
        "d_k",
        "d_v",
        "P_drop",
        "ε_ls",
        "updates",
        "parameters",
        "paper",
    )
    rows: list[tuple[Any, ...]] = [head]
    for arch in ARCHITECTURES:
        s = settings(arch)
        rows.append(
            (
                arch,
                s.N,
                s.d_model,
                s.d_ff,
                s.h,
                *s.head_widths(),
                s.dropout,
                s.label_smoothing,
                f"{s.max_update:,}",
                f"{parameters(arch, vocabulary):,}",
                f"{s.paper_millions}M" if s.paper_millions else "",
            )
        )
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]
    lines = (
        f"{row[0]:<{widths[0]}}"
        + "".join(f"  {cell!s:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
