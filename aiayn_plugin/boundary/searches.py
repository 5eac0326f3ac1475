"""§6.1: which search the options of fairseq-generate ask for, and whether it can be."""

import math
from argparse import Namespace
from typing import Any

from fairseq.dataclass.configs import GenerationConfig

from ..errors import InputError
from ..search.rules import FairseqRules, PaperRules, Rules
from .names import SEARCH, flag


def complete(args: Any, paper: bool) -> Namespace:
    """Return the options of a search with all defaults.

    args: the whole GenerationConfig, or only what was typed (--eval-bleu-args). paper: whether the
    search is the paper's or fairseq's.
    """
    stock = {**vars(GenerationConfig()), "prefix_allowed_tokens_fn": None}
    defaults = {**stock, **(SEARCH if paper else {})}
    return Namespace(**{name: getattr(args, name, value) for name, value in defaults.items()})


def other_search(args: Any, prefix_allowed_tokens_fn: Any = None) -> str | None:
    """Return the option that asks for one of fairseq's other searches; None if none does."""
    asked = {
        "sampling": args.sampling,
        "diverse_beam_groups": args.diverse_beam_groups > 0,
        "diversity_rate": args.diversity_rate > -1,
        "match_source_len": args.match_source_len,
        "constraints": args.constraints,
        "prefix_allowed_tokens_fn": prefix_allowed_tokens_fn or args.prefix_allowed_tokens_fn,
    }
    return next((flag(name) for name, value in asked.items() if value), None)


def rules_of(args: Any, paper: bool, vocabulary: int) -> Rules:
    """Return the rules of a search; vocabulary: the entries of the target dictionary.

    Raises InputError if there is no such search.
    """
    _check(args, paper, vocabulary)
    exponent = 0.0 if args.unnormalized else args.lenpen
    kept = min(args.nbest, args.beam)
    # If an option lets scores rise, nothing is decided before the limit.
    early = min(exponent, args.unkpen, args.lm_weight) >= 0
    if paper:
        return PaperRules(exponent, args.max_len_a, args.max_len_b, kept, early)
    return FairseqRules(exponent, args.max_len_a, args.max_len_b, kept, args.beam, early)


def _check(args: Any, paper: bool, vocabulary: int) -> None:
    if not 1 <= args.beam < vocabulary:
        raise InputError(f"--beam {args.beam} must be at least 1, and less than the {vocabulary} "
                         "entries of the target dictionary")
    if paper and not 0 <= args.lenpen < math.inf:
        raise InputError(f"--lenpen {args.lenpen} must not be negative: it is α of the GNMT "
                         "penalty (§6.1)")
    if args.nbest < 1:
        raise InputError(f"--nbest {args.nbest} must be at least 1")
    if min(args.max_len_a, args.max_len_b) < 0:
        raise InputError("--max-len-a and --max-len-b must not be negative")


def alignment_of(args: Any) -> str | None:
    """Return the kind of alignment that the options ask for; --replace-unk needs a hard one."""
    if args.print_alignment is None and args.replace_unk is not None:
        return "hard"
    return args.print_alignment
