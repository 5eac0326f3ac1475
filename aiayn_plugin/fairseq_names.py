"""The names under which fairseq's users know the settings of the paper's model."""

import argparse
from collections.abc import Mapping
from typing import Any

from .errors import fail

#: fairseq's pairs of options, one for each stack, and ours, which holds for both.
PAIRS = {
    "layers": "N",
    "embed_dim": "d_model",
    "ffn_embed_dim": "d_ff",
    "attention_heads": "h",
}
#: fairseq's switches: our option and its value. The later of two on the same option wins, as in
#: fairseq, where --share-all-embeddings includes the other.
SWITCHES = {
    "encoder_learned_pos": ("positions", "learned"),
    "decoder_learned_pos": ("positions", "learned"),
    "share_decoder_input_output_embed": ("tie_embeddings", "target"),
    "share_all_embeddings": ("tie_embeddings", "all"),
}


def add_args(parser: Any) -> None:
    """Add fairseq's names to a parser (or a group of its options)."""
    for name, ours in PAIRS.items():
        for stack in ("encoder", "decoder"):
            parser.add_argument(
                _flag(f"{stack}_{name}"), type=int, metavar=ours, default=argparse.SUPPRESS,
                help=f"fairseq's name for {_flag(ours)}; both stacks have the same",
            )
    for name, (ours, value) in SWITCHES.items():
        parser.add_argument(
            _flag(name), action="store_true", default=argparse.SUPPRESS,
            help=f"fairseq's name for {_flag(ours)} {value}",
        )


def translate(typed: Mapping[str, Any]) -> dict[str, Any]:
    """Our settings for the fairseq names among the typed options.

    Ends the command where two of them, or one of them and ours, contradict each other.
    """
    found: dict[str, Any] = {}
    for name, ours in PAIRS.items():
        encoder, decoder = (typed.get(f"{stack}_{name}") for stack in ("encoder", "decoder"))
        if encoder != decoder:
            flags = [_flag(f"{stack}_{name}") for stack in ("encoder", "decoder")]
            fail(f"both stacks of the paper's model have the same {ours} (§3): give {flags[0]} and "
                 f"{flags[1]} the same value, or give {_flag(ours)} alone")
        if encoder is not None:
            found[ours] = encoder
            _agree(typed, ours, encoder, _flag(f"encoder_{name}"))
    if ("encoder_learned_pos" in typed) != ("decoder_learned_pos" in typed):
        fail("both stacks have the same positions (§3.5): give --encoder-learned-pos and "
             "--decoder-learned-pos, or --positions learned")
    for name, (ours, value) in SWITCHES.items():
        if name in typed:
            found[ours] = value
    for name, (ours, _) in SWITCHES.items():
        if name in typed:
            _agree(typed, ours, found[ours], _flag(name))
    return found


def _agree(typed: Mapping[str, Any], ours: str, value: Any, flag: str) -> None:
    if ours in typed and str(typed[ours]) != str(value):
        fail(f"{flag} means {_flag(ours)} {value}, and {_flag(ours)} {typed[ours]} is given too: "
             "drop one of them")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
