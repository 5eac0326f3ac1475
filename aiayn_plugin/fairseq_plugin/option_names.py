"""The names under which fairseq's users know the settings of the paper's model and search."""

import argparse
from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from ..paper import PARSING_SEARCH, SearchSettings

#: The paper's search, of translations and of trees.
SEARCH, TREE_SEARCH = SearchSettings().options(), PARSING_SEARCH.options()
STACKS = ("encoder", "decoder")
#: fairseq has each of these options twice, as --encoder-… and --decoder-…; ours holds for both.
PAIRS = {
    "layers": "N",
    "embed_dim": "d_model",
    "ffn_embed_dim": "d_ff",
    "attention_heads": "h",
}
#: fairseq's switch for learned positions, likewise one for each stack.
LEARNED = "learned_pos"
#: fairseq's switches for one matrix: what each means for --tie-embeddings. In fairseq the second
#: includes the first, so it wins.
TIES = {"share_decoder_input_output_embed": "target", "share_all_embeddings": "all"}

#: All of fairseq's switches: our option and its value.
SWITCHES = {
    **{f"{stack}_{LEARNED}": ("positions", "learned") for stack in STACKS},
    **{name: ("tie_embeddings", value) for name, value in TIES.items()},
}


def add_args(parser: Any) -> None:
    """Add fairseq's names to a parser, or to a group of its options."""
    for name, ours in PAIRS.items():
        for stack in STACKS:
            parser.add_argument(
                flag(f"{stack}_{name}"),
                type=int,
                metavar=ours,
                default=argparse.SUPPRESS,
                help=f"fairseq's name for {flag(ours)}; both stacks have the same",
            )
    for name, (ours, value) in SWITCHES.items():
        parser.add_argument(
            flag(name),
            action="store_true",
            default=argparse.SUPPRESS,
            help=f"fairseq's name for {flag(ours)} {value}",
        )


def translate(typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return our settings for the fairseq names among the typed options.

    Raises InputError if two of them, or one of them and ours, contradict each other.
    """
    settings: dict[str, Any] = {}
    for name, ours in PAIRS.items():
        flags = [flag(f"{stack}_{name}") for stack in STACKS]
        encoder, decoder = (typed.get(f"{stack}_{name}") for stack in STACKS)
        if encoder != decoder:
            raise InputError(
                f"both stacks of the paper's model have the same {ours} (§3): give {flags[0]} and "
                f"{flags[1]} the same value, or give {flag(ours)} alone"
            )
        if encoder is not None:
            settings[ours] = encoder
            _check_agreement(typed, ours, encoder, flags[0])
    if len({f"{stack}_{LEARNED}" for stack in STACKS} & typed.keys()) == 1:
        raise InputError(
            "both stacks have the same positions (§3.5): give --encoder-learned-pos "
            "and --decoder-learned-pos, or --positions learned"
        )
    switches = {name: meaning for name, meaning in SWITCHES.items() if name in typed}
    for ours, value in switches.values():
        settings[ours] = value  # the later one wins
    for name, (ours, _) in switches.items():
        _check_agreement(typed, ours, settings[ours], flag(name))
    return settings


def _check_agreement(typed: Mapping[str, Any], ours: str, value: Any, theirs: str) -> None:
    """Raise InputError if our option is typed too, with another value than fairseq's means."""
    if ours in typed and str(typed[ours]) != str(value):
        raise InputError(
            f"{theirs} means {flag(ours)} {value}, and {flag(ours)} {typed[ours]} is "
            "given too: drop one of them"
        )


def flag(name: str) -> str:
    """Return the option of a setting: d_model is --d-model."""
    return "--" + name.replace("_", "-")
