"""§6.1: which search the options of fairseq-generate ask for, and whether it can be."""

import logging
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fairseq import utils
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models import FairseqEncoderDecoderModel
from omegaconf import OmegaConf

from ..errors import InputError
from ..model.int8 import in_int8
from ..model.packing import pack
from ..paper import PARSING_SEARCH, SearchSettings
from ..parsing.grammar import TreeGrammar
from ..search.rules import rules_of
from ..text.settings import MAX_TREE_DEPTH, holds_trees
from .fairseq_transformer import is_fairseqs_transformer, search_with_beam
from .generator import Generator
from .model import Transformer
from .option_names import flag
from .precision import generate_in_bfloat16

logger = logging.getLogger(__name__)


def complete(args: Any, defaults: Mapping[str, Any]) -> Namespace:
    """Return all options of a search.

    args: a GenerationConfig, or only the options that were given (--eval-bleu-args). defaults:
    those that are not fairseq's.
    """
    given = args if OmegaConf.is_config(args) else vars(args)
    fairseq_defaults = {**vars(GenerationConfig()), "prefix_allowed_tokens_fn": None}
    return Namespace(
        **{
            name: given[name] if name in given else value
            for name, value in {**fairseq_defaults, **defaults}.items()
        }
    )


def search_defaults(
    args: Any, length_penalty: str, trees: bool, prefix_allowed_tokens_fn: Any = None
) -> Mapping[str, Any]:
    """Return the defaults of a search that are not fairseq's: the paper's, if it is the paper's.

    args: as for `complete`. trees: whether the targets are trees.
    """
    if length_penalty != "gnmt" or other_search(complete(args, {}), prefix_allowed_tokens_fn):
        return {}
    return (PARSING_SEARCH if trees else SearchSettings()).options()


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


def build_search_generator(
    task: Any,
    models: list,
    args: Any,
    build: Callable,
    seq_gen_cls: Any = None,
    extra_gen_cls_kwargs: dict[str, Any] | None = None,
    prefix_allowed_tokens_fn: Any = None,
) -> Any:
    """Return a Generator under the rules of --length-penalty, or a generator of fairseq's.

    build: FairseqTask.build_generator of the task; the other arguments are its arguments. Raises
    InputError for invalid search settings.
    """
    if isinstance((extra_gen_cls_kwargs or {}).get("lm_model"), FairseqEncoderDecoderModel):
        raise InputError("--lm-path is a model of two languages: give a language model")
    _prepare(task, models)
    trees = holds_trees(Path(utils.split_paths(task.cfg.data)[0]))
    args = complete(
        args, search_defaults(args, task.cfg.length_penalty, trees, prefix_allowed_tokens_fn)
    )
    if seq_gen_cls is not None or args.score_reference:
        _refuse_grammar(task, "this search")
        return build(models, args, seq_gen_cls, extra_gen_cls_kwargs, prefix_allowed_tokens_fn)
    if other := other_search(args, prefix_allowed_tokens_fn) or other_model(models):
        _refuse_grammar(task, other)
        if args.beam < 1:
            raise InputError(f"--beam {args.beam} must be at least 1")
        search_with_beam(models, args.beam)
        logger.info(
            "%s: searched by fairseq, with --beam %s, --lenpen %s (the exponent of |Y|); "
            "--length-penalty fairseq gives fairseq's defaults",
            other,
            args.beam,
            args.lenpen,
        )
        return build(models, args, None, extra_gen_cls_kwargs, prefix_allowed_tokens_fn)
    if trees and task.training_cfg is None:
        logger.info(
            "the targets are trees: aiayn score LOG --data %s gives their F1; a BLEU "
            "of them is one of brackets",
            task.cfg.data,
        )
    rules = rules_of(args, task.cfg.length_penalty == "gnmt", len(task.target_dictionary))
    grammar = _grammar(task, trees) if task.cfg.trees_only else None
    extra = {
        **(extra_gen_cls_kwargs or {}),
        "rules": rules,
        "grammar": grammar,
        "alignment": alignment_of(args),
    }
    return build(models, args, Generator, extra)


def _prepare(task: Any, models: list) -> None:
    """Give models that will search their precision, and their fastest products.

    Nothing else can be done with those of a generating command, so their weights are packed.
    """
    if task.building:
        return
    root = task.cfg._get_root()
    generates = task.training_cfg is None and "common_eval" in root and root.common_eval.path
    if generates:
        generate_in_bfloat16(root.common, models)
    for model in models:
        if task.cfg.int8:
            search_in_int8(model)
        elif generates and isinstance(model, Transformer):
            pack(model.encoder, model.decoder)


def _refuse_grammar(task: Any, other: str) -> None:
    if task.cfg.trees_only:
        raise InputError(
            f"--trees-only is a rule of the plugin's own search: leave it out, or {other}"
        )


def _grammar(task: Any, trees: bool) -> TreeGrammar:
    if not trees:
        raise InputError(
            "--trees-only is for data that preprocess/trees.py made, and "
            f"{task.cfg.data} holds no trees"
        )
    pieces, symbols = task.source_dictionary.symbols, task.target_dictionary.symbols
    special, eos = task.target_dictionary.nspecial, task.target_dictionary.eos()
    return TreeGrammar(pieces, symbols, special, eos, deepest=MAX_TREE_DEPTH - 2)
