"""§5, §6.1: the paper's run and the paper's search as defaults of fairseq's command line."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..errors import InputError
from ..paper import ARCHITECTURES, get_settings
from . import option_names as names

COMPONENTS = {
    "criterion": "aiayn_label_smoothed_cross_entropy",
    "optimizer": "aiayn_adam",
    "lr_scheduler": "aiayn_inverse_sqrt",
}
#: Settings of the paper that are options of these components. Another component may have an option
#: of the same name, which keeps its own default.
OPTIONS_OF = {"label_smoothing": "criterion", "warmup_updates": "lr_scheduler"}
#: Settings that are no options here: β and ε are defaults of our optimiser, which has no decay.
NO_OPTIONS = ("adam_betas", "adam_eps", "weight_decay", "paper_millions")
#: Options of fairseq-generate that ask for one of fairseq's other searches.
OTHER_SEARCHES = {
    "sampling",
    "diverse_beam_groups",
    "diversity_rate",
    "match_source_len",
    "constraints",
}
#: Options of fairseq-train on which the defaults of others depend, beside fairseq's names for ours.
DECIDING = (
    *COMPONENTS,
    *names.PAIRS.values(),
    "positions",
    "tie_embeddings",
    "update_freq",
    "tokens_per_update",
    "save_interval",
    "save_interval_updates",
    "keep_last_epochs",
)


def search_defaults(argv: Sequence[str] | None) -> dict[str, Any]:
    """Return the defaults of the search's options for a command line (default: sys.argv).

    They are empty if the command line asks for fairseq's own task or for one of its searches. If
    only fairseq's search can take the model, fairseq's defaults are needed after all: with them
    comes "search_defaults", an option of our task, with the names of those that nobody typed.
    """
    parser = argparse.ArgumentParser(
        add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    parser.add_argument("--task", default="aiayn_translation")
    parser.add_argument("--length-penalty", default="gnmt")
    for name in (*names.SEARCH, *OTHER_SEARCHES):
        parser.add_argument(names.flag(name), nargs="?")
    typed = vars(parser.parse_known_args(argv)[0])
    ours = (typed["task"], typed["length_penalty"]) == ("aiayn_translation", "gnmt")
    if not ours or typed.keys() & OTHER_SEARCHES:
        return {}
    untyped = ",".join(name for name in names.SEARCH if name not in typed)
    return {**names.SEARCH, "search_defaults": untyped}


def typed_options(argv: Sequence[str] | None) -> dict[str, Any]:
    """Return those options of a command line that decide about the defaults of others.

    They are empty unless it names one of our architectures: another model may have an option of the
    same name that takes something else. fconv's --encoder-layers is "[(512, 3)] * 20".
    """
    parser = argparse.ArgumentParser(
        add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    parser.add_argument("--arch", "-a", default="")
    if parser.parse_known_args(argv)[0].arch not in {"aiayn_transformer", *ARCHITECTURES}:
        return {}
    parser.add_argument("--batch-size", "--max-sentences")
    parser.add_argument("--lr", "--learning-rate")
    names.add_args(parser)
    for name in DECIDING:
        parser.add_argument(names.flag(name))
    return vars(parser.parse_known_args(argv)[0])


def training_defaults(argv: Sequence[str] | None) -> dict[str, Any]:
    """Return the defaults of fairseq-train's options for a command line (default: sys.argv).

    They are empty unless it names one of our architectures. Raises InputError if it contradicts
    itself.
    """
    typed = typed_options(argv)
    arch = typed.get("arch", "")
    if arch not in ARCHITECTURES:  # the model without a name of the paper's, or another one
        return names.translate(typed)
    chosen = {**COMPONENTS, **{name: typed[name] for name in COMPONENTS if name in typed}}
    _check(typed, chosen)
    paper = asdict(get_settings(arch))
    other = [name for name, of in OPTIONS_OF.items() if chosen[of] != COMPONENTS[of]]
    for name in (*NO_OPTIONS, *other):
        del paper[name]
    if typed.keys() & {"batch_size", "update_freq"}:  # the user cuts the batches
        paper["tokens_per_update"] = 0
    epochs = typed.keys() & {"save_interval", "keep_last_epochs"}
    return {
        **paper,
        **names.translate(typed),
        **COMPONENTS,
        "max_tokens": None if "batch_size" in typed else 4096,
        "required_batch_size_multiple": 1,  # fairseq's 8 loses sentences
        "no_epoch_checkpoints": not epochs and typed.get("save_interval_updates") != "0",
    }


def _check(typed: dict[str, Any], chosen: dict[str, str]) -> None:
    """Raise InputError if typed options contradict the chosen components or each other."""
    if "lr" in typed and chosen["lr_scheduler"] == COMPONENTS["lr_scheduler"]:
        raise InputError(
            "the schedule aiayn_inverse_sqrt has no --lr: the rate follows from d_model and the "
            "update number (§5.3); drop --lr, or choose another --lr-scheduler"
        )
    by_hand = typed.keys() & {"batch_size", "update_freq"}
    if by_hand and typed.get("tokens_per_update", "0") != "0":
        raise InputError(
            "--tokens-per-update chooses the batches, and so does "
            f"{names.flag(min(by_hand))}: give one of them"
        )
