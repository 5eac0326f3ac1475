"""§6.1: which search the options of fairseq-generate ask for, and whether it can be."""

from argparse import Namespace
from collections.abc import Iterable, Mapping
from typing import Any

from fairseq.dataclass.configs import GenerationConfig

from ..errors import InputError
from ..model.int8 import in_int8
from .fairseq_transformer import is_fairseqs_transformer
from .model import Transformer
from .option_names import SEARCH, flag


def complete(args: Any, ours: Mapping[str, Any]) -> Namespace:
    """Return the options of a search with all defaults.

    args: the whole GenerationConfig, or only what was typed (--eval-bleu-args). ours: the defaults
    that are not fairseq's.
    """
    stock = {**vars(GenerationConfig()), "prefix_allowed_tokens_fn": None}
    defaults = {**stock, **ours}
    return Namespace(**{name: getattr(args, name, value) for name, value in defaults.items()})


def other_search(args: Any, prefix_allowed_tokens_fn: Any = None) -> str | None:
    """Return the option that asks for one of fairseq's other searches; None if none does.

    Raises InputError for options of several searches, and for an option without its search.
    """
    asked = {
        "sampling": args.sampling,
        "diverse_beam_groups": args.diverse_beam_groups > 0,
        "diversity_rate": args.diversity_rate > -1,
        "match_source_len": args.match_source_len,
        "constraints": args.constraints,
        "prefix_allowed_tokens_fn": prefix_allowed_tokens_fn or args.prefix_allowed_tokens_fn,
    }
    flags = [flag(name) for name, value in asked.items() if value]
    if len(flags) > 1:
        raise InputError(f"{flags[0]} and {flags[1]} are two searches: give one of them")
    for name in ("sampling_topk", "sampling_topp"):
        if getattr(args, name) >= 0 and not args.sampling:
            raise InputError(f"{flag(name)} needs --sampling")
    for name in ("print_step", "retain_iter_history"):
        if getattr(args, name):
            raise InputError(
                f"{flag(name)} is for models that refine a translation step by step "
                "(--task translation_lev), and this search has no such steps"
            )
    return flags[0] if flags else None


def other_model(models: Iterable[Any]) -> str | None:
    """Return the kind of a model that only fairseq's search can take; None if there is none."""
    others = (
        model
        for model in models
        if not isinstance(model, Transformer) and not is_fairseqs_transformer(model)
    )
    return next((type(model).__name__ for model in others), None)


def replace_defaults(args: Any, untyped: str, values: Mapping[str, Any]) -> None:
    """Put other defaults, in place, where the paper's values stand only by default.

    args: as for complete. untyped: the names of the options that nobody typed: "beam,lenpen".
    """
    for name in filter(None, untyped.split(",")):
        if getattr(args, name, None) == SEARCH[name]:
            setattr(args, name, values[name])


def fairseqs(args: Any, untyped: str) -> Namespace:
    """Return the options of a search by fairseq, with fairseq's defaults.

    args, untyped: as for replace_defaults; args are changed in place too, so that fairseq reports
    what it does.
    """
    replace_defaults(args, untyped, vars(GenerationConfig()))
    args = complete(args, {})
    if args.beam < 1:
        raise InputError(f"--beam {args.beam} must be at least 1")
    return args


def alignment_of(args: Any) -> str | None:
    """Return the kind of alignment that the options ask for; --replace-unk needs a hard one."""
    if args.print_alignment is None and args.replace_unk is not None:
        return "hard"
    return args.print_alignment


def search_in_int8(model: Any) -> None:
    """Let a model search by 8-bit numbers. Raises InputError for one that is not the plugin's."""
    if not isinstance(model, Transformer):
        raise InputError(
            "--int8 is for the plugin's models; aiayn convert turns fairseq's transformer into one"
        )
    in_int8(model.encoder, model.decoder)
