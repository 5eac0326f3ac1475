"""The paper's values: base (§3, §5), the rows of Table 3 (§6.2), the parser (§6.3), search (§6.1).

The command-line options, the Hydra configurations and the settings table in the training log are
derived from these values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from .errors import InputError

#: The kinds of positional encoding: the paper's sinusoids, learned vectors or fairseq's sinusoids.
POSITION_KINDS = ("sinusoids", "learned", "fairseq")
#: Weights that share a matrix: all (§3.4), the target embedding and output projection, or none.
TIED_EMBEDDINGS = ("all", "target", "none")


def _setting(default: Any, help_text: str, choices: tuple[str, ...] | None = None) -> Any:
    """Return a dataclass field; help_text documents it here and in its option's --help."""
    return field(default=default, metadata={"help": help_text, "choices": choices})


def copy_field(settings: type, name: str) -> Any:
    """Return a copy of a field of a settings class, for a fairseq component's own dataclass."""
    original = settings.__dataclass_fields__[name]  # type: ignore[attr-defined]
    return field(default=original.default, metadata=original.metadata)


@dataclass
class ModelSettings:
    """The model's hyperparameters (§3), named as in the paper. The defaults are base's."""

    # Optional[int] because fairseq cannot turn `int | None` into a command-line option.
    N: int = _setting(6, "number of layers in each stack (§3.1)")
    d_model: int = _setting(512, "width of embeddings and sub-layer outputs (§3.1)")
    d_ff: int = _setting(2048, "inner width of the feed-forward network (§3.3)")
    h: int = _setting(8, "number of attention heads (§3.2.2)")
    d_k: Optional[int] = _setting(  # noqa: UP045
        None, "width of queries and keys; default: d_model / h"
    )
    d_v: Optional[int] = _setting(None, "width of values; default: d_model / h")  # noqa: UP045
    dropout: float = _setting(
        0.1, "P_drop, on sub-layer outputs and on embeddings + positions (§5.4)"
    )
    attention_dropout: float = _setting(
        0.0, "dropout on the attention weights (none in §5.4; tuned for parsing in §6.3)"
    )
    attention_bias: bool = _setting(
        False, "add biases to the attention projections (none in §3.2.2)"
    )
    positions: str = _setting(
        "sinusoids",
        "the paper's sinusoids, learned vectors (Table 3, row E) or fairseq's sinusoids",
        POSITION_KINDS,
    )
    neighbourhood: Optional[int] = _setting(  # noqa: UP045
        None, "r of restricted self-attention (Table 1); default: unrestricted"
    )
    tie_embeddings: str = _setting(
        "all",
        "weights that share one matrix: all (both embeddings and the output projection, §3.4), "
        "target (the target embedding and the projection) or none",
        TIED_EMBEDDINGS,
    )
    feed_forward_gain: float = _setting(
        1.0, "gain of the feed-forward network's Glorot initialisation"
    )
    checkpoint_activations: bool = _setting(
        False,
        "recompute attention from its inputs in the backward pass, which takes less memory and "
        "more time",
    )

    def check(self) -> None:
        """Raise InputError if a size is below 1, or a dropout is not a probability."""
        for name in ("N", "d_model", "d_ff", "h"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} {getattr(self, name)} must be at least 1")
        for name in ("dropout", "attention_dropout"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} {getattr(self, name)} must be from 0 to 1")
        if self.feed_forward_gain < 0:
            raise InputError(f"feed_forward_gain {self.feed_forward_gain} must be at least 0")

    def head_widths(self) -> tuple[int, int]:
        """Return d_k and d_v. Raises InputError for invalid widths, or as `check` does."""
        self.check()
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
    """Training (§5). The defaults are base's."""

    label_smoothing: float = _setting(0.1, "epsilon_ls (§5.4); 0 disables label smoothing")
    adam_betas: tuple[float, float] = _setting((0.9, 0.98), "beta_1 and beta_2 of Adam (§5.3)")
    adam_eps: float = _setting(1e-9, "epsilon of Adam (§5.3), added after the bias correction")
    weight_decay: float = _setting(0.0, "weight decay (none in §5.3)")
    clip_norm: float = _setting(0.0, "maximum gradient norm (none in §5.3); 0 disables clipping")
    warmup_updates: int = _setting(
        4000, "warmup_steps (§5.3): updates until the learning rate peaks"
    )
    tokens_per_update: int = _setting(
        25_000, "target tokens per update, without padding, over all devices (§5.1)"
    )
    max_update: int = _setting(100_000, "number of updates (§5.2)")
    # The paper wrote a checkpoint every 10 minutes, about 1,500 updates of base or 600 of big, and
    # averaged the last 5 of base or 20 of big (§6.1). The last update is written as well.
    save_interval_updates: int = _setting(1_500, "number of updates between checkpoints")
    keep_interval_updates: int = _setting(5, "number of checkpoints to keep, for averaging")


@dataclass(frozen=True)
class SearchSettings:
    """Beam search (§6.1): fairseq-generate's option names, with the paper's defaults."""

    beam: int = 4
    #: α of the GNMT length penalty; with length_penalty "fairseq", the exponent of the length.
    lenpen: float = 0.6
    #: A translation has at most max_len_a · (source tokens) + max_len_b tokens.
    max_len_a: float = 1.0
    max_len_b: int = 50
    #: Number of hypotheses to return for each sentence.
    nbest: int = 1
    min_len: int = 1
    temperature: float = 1.0
    #: Penalty subtracted from log P of `<unk>`.
    unkpen: float = 0.0
    #: Rank hypotheses by log P alone, without a length penalty.
    unnormalized: bool = False
    #: "gnmt" for the paper's rules, "fairseq" for fairseq's (search/rules.py).
    length_penalty: str = "gnmt"
    #: End a sentence once no open hypothesis can change its result.
    stop_early: bool = True

    def options(self) -> dict[str, Any]:
        """Return the settings that §6.1 specifies, by fairseq-generate option name."""
        names = ("beam", "lenpen", "max_len_a", "max_len_b")
        return {name: getattr(self, name) for name in names}


#: Approximate number of brackets and tags in the Penn Treebank.
TREE_SYMBOLS = 100
#: The search for parse trees (§6.3).
PARSING_SEARCH = SearchSettings(beam=21, lenpen=0.3, max_len_b=300)


def paper_search(trees: bool) -> SearchSettings:
    """Return the paper's search for the given targets: trees (§6.3) or text (§6.1)."""
    return PARSING_SEARCH if trees else SearchSettings()


@dataclass
class Settings(TrainingSettings, ModelSettings):
    """A named architecture: its model and its training."""

    #: The number of parameters given in Table 3, in millions.
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

#: Not in the paper: for small corpora on a CPU, trained in few updates at a high learning rate. The
#: feed-forward network is initialised at half the usual scale, since at full scale its output
#: drowns out that of attention in the first updates of a post-norm layer.
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

#: §6.3. Source words and target symbols hardly overlap, so each side has its own embedding.
PARSER: Mapping[str, Any] = {"N": 4, "d_model": 1024, "tie_embeddings": "target"}

#: How each architecture differs from base. Those of Table 3 are named after their row and change,
#: and have paper_millions if the table gives their number of parameters.
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
#: Scaled-down architectures, which are not in the paper, and the architecture to compare each with.
SCALED_DOWN: Mapping[str, str] = {"aiayn_tiny": "aiayn_base", "aiayn_parser_tiny": "aiayn_parser"}


def get_settings(arch: str) -> Settings:
    """Return all settings of a named architecture."""
    return Settings(**ARCHITECTURES[arch])


def count_parameters(
    s: ModelSettings, source_size: int, target_size: int, max_positions: int = 1024
) -> int:
    """Return the number of parameters of a model for dictionaries of these sizes.

    Learned positions have max_positions vectors on each side.
    """
    d_k, d_v = s.head_widths()
    attention = 2 * s.d_model * s.h * (d_k + d_v)  # W^Q, W^K, W^V, W^O
    if s.attention_bias:
        attention += s.h * (2 * d_k + d_v) + s.d_model
    feed_forward = 2 * s.d_model * s.d_ff + s.d_ff + s.d_model
    norm = 2 * s.d_model
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    positions = 2 * max_positions if s.positions == "learned" else 0
    rows = {
        "all": target_size,
        "target": source_size + target_size,
        "none": source_size + 2 * target_size,
    }
    return (rows[s.tie_embeddings] + positions) * s.d_model + s.N * (encoder + decoder)


def format_architectures(vocabulary: int = 37_000) -> str:
    """Return a table of all architectures with their hyperparameters and parameter counts.

    Both sides have `vocabulary` entries, except in a parser, whose target side has TREE_SYMBOLS.
    """
    rows: list[tuple[Any, ...]] = [
        ("--arch", "N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "ε_ls")
        + ("updates", "parameters", "paper")
    ]
    for arch in ARCHITECTURES:
        s = get_settings(arch)
        sizes = s.N, s.d_model, s.d_ff, s.h, *s.head_widths(), s.dropout, s.label_smoothing
        symbols = TREE_SYMBOLS if s.tie_embeddings == "target" else vocabulary
        parameters = count_parameters(s, vocabulary, symbols)
        paper = f"{s.paper_millions}M" if s.paper_millions else ""
        rows.append((arch, *sizes, f"{s.max_update:,}", f"{parameters:,}", paper))
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]
    lines = (
        f"{row[0]:<{widths[0]}}"
        + "".join(f"  {cell!s:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
