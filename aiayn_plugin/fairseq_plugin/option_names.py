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
#: fairseq's switch for learned positions, also with one for each stack.
LEARNED = "learned_pos"
#: fairseq's switches for shared matrices, and their values of --tie-embeddings. In fairseq the
#: second includes the first, so it wins.
TIES = {"share_decoder_input_output_embed": "target", "share_all_embeddings": "all"}

#: All of fairseq's switches: our option and its value.
SWITCHES = {
    **{f"{stack}_{LEARNED}": ("positions", "learned") for stack in STACKS},
    **{name: ("tie_embeddings", value) for name, value in TIES.items()},
}


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
    for name, (ours, value) in SWITCHES.items():
        parser.add_argument(
            flag(name),
            action="store_true",
            default=argparse.SUPPRESS,
            help=f"fairseq's name for {flag(ours)} {value}",
        )


def to_paper_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return our settings for fairseq's names among the given options.

    Raises InputError if fairseq's names contradict each other or one of our options.
    """
    settings: dict[str, Any] = {}
    for name, ours in STACK_OPTIONS.items():
        flags = [flag(f"{stack}_{name}") for stack in STACKS]
        encoder, decoder = (given.get(f"{stack}_{name}") for stack in STACKS)
        if encoder != decoder:
            raise InputError(
                f"both stacks of the paper's model have the same {ours} (§3): give {flags[0]} and "
                f"{flags[1]} the same value, or give {flag(ours)} alone"
            )
        if encoder is not None:
            settings[ours] = encoder
            _check_agreement(given, ours, encoder, flags[0])
    if len({f"{stack}_{LEARNED}" for stack in STACKS} & given.keys()) == 1:
        raise InputError(
            "both stacks have the same positions (§3.5): give --encoder-learned-pos "
            "and --decoder-learned-pos, or --positions learned"
        )
    switches = {name: meaning for name, meaning in SWITCHES.items() if name in given}
    for ours, value in switches.values():
        settings[ours] = value  # the later one wins
    for name, (ours, _) in switches.items():
        _check_agreement(given, ours, settings[ours], flag(name))
    return settings


def _check_agreement(given: Mapping[str, Any], ours: str, value: Any, fairseq_flag: str) -> None:
    """Raise InputError if our option is given too, with a different value."""
    if given.get(ours, value) != value:
        raise InputError(
            f"{fairseq_flag} means {flag(ours)} {value}, but {flag(ours)} {given[ours]} is also "
            "given: drop one of them"
        )


def flag(name: str) -> str:
    """Return the command-line option of a setting: --d-model of d_model."""
    return "--" + name.replace("_", "-")
