"""fairseq's names for the settings of the paper's model."""

import argparse
from collections.abc import Mapping
from typing import Any

from ..errors import InputError

STACKS = ("encoder", "decoder")
#: Options that fairseq has for each stack (--encoder-…, --decoder-…), and ours for both.
STACK_OPTIONS = {
    "layers": "N",
    "embed_dim": "d_model",
    "ffn_embed_dim": "d_ff",
    "attention_heads": "h",
}
#: fairseq's switch for learned positions, one per stack.
LEARNED = "learned_pos"
#: fairseq's switches for shared matrices, and the equivalent --tie-embeddings. The second includes
#: the first, so it takes precedence.
TIES = {"share_decoder_input_output_embed": "target", "share_all_embeddings": "all"}


def add_args(parser: Any) -> None:
    """Add fairseq's names to a parser, or to a group of its options."""
    for name, ours in STACK_OPTIONS.items():
        for stack in STACKS:
            parser.add_argument(
                flag(f"{stack}_{name}"),
                type=int,
                metavar=ours,
                default=argparse.SUPPRESS,
                help=f"fairseq's name for {flag(ours)}, which sets both stacks",
            )
    learned = {f"{stack}_{LEARNED}": "--positions learned" for stack in STACKS}
    ties = {name: f"--tie-embeddings {value}" for name, value in TIES.items()}
    for name, ours in {**learned, **ties}.items():
        parser.add_argument(
            flag(name),
            action="store_true",
            default=argparse.SUPPRESS,
            help=f"fairseq's name for {ours}",
        )


def to_paper_settings(cli_options: Mapping[str, Any]) -> dict[str, Any]:
    """Translate fairseq's option names to the plugin's settings.

    Raises InputError if fairseq's names contradict each other or one of our options.
    """
    settings: dict[str, Any] = {}
    flags: dict[str, str] = {}  # fairseq's option for each of our settings
    for name, ours in {**STACK_OPTIONS, LEARNED: "positions"}.items():
        encoder, decoder = (cli_options.get(f"{stack}_{name}") for stack in STACKS)
        both = [flag(f"{stack}_{name}") for stack in STACKS]
        if encoder != decoder:
            raise InputError(
                f"both stacks of the paper's model have the same {ours} (§3): give {both[0]} and "
                f"{both[1]}{'' if name == LEARNED else ' the same value'}, or give {flag(ours)} "
                "alone"
            )
        if encoder is not None:
            settings[ours] = "learned" if name == LEARNED else encoder
            flags[ours] = both[0]
    for name, value in TIES.items():
        if name in cli_options:
            settings["tie_embeddings"], flags["tie_embeddings"] = value, flag(name)
    for ours, value in settings.items():
        if cli_options.get(ours, value) != value:
            raise InputError(
                f"{flags[ours]} means {flag(ours)} {value}, but {flag(ours)} {cli_options[ours]} "
                "is also given: drop one of them"
            )
    return settings


def flag(name: str) -> str:
    """Return the command-line option for a setting: --d-model for d_model."""
    return "--" + name.replace("_", "-")
