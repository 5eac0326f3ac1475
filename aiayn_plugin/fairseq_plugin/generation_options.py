"""§6.1 The search that fairseq-generate's options request, or an error if none supports them."""

import json
import logging
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from fairseq.dataclass.configs import GenerationConfig
from fairseq.models import FairseqLanguageModel
from fairseq.modules import BeamableMM
from fairseq.ngram_repeat_block import is_cuda_extension_usable
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..errors import InputError
from ..kernels.cpu_runtime import prepare_cpu_for_search
from ..kernels.int8 import quantize_linear_layers
from ..kernels.packing import pack_linear_layers
from ..paper import SearchSettings, paper_search
from ..parsing.grammar import TreeGrammar
from ..text.settings import holds_trees
from .fairseq_transformer import SUPPORTED_STACKS
from .generator import Generator
from .model import AiaynTransformer
from .option_names import flag
from .raw_text import first_directory

logger = logging.getLogger(__name__)

#: Options of the search that fairseq-generate and fairseq-interactive implement themselves.
COMMAND_OPTIONS = {"constraints", "lm_path", "prefix_size", "score_reference"}


def build_search_generator(
    task: Any,
    models: list,
    args: Any,
    build_fairseq_generator: Callable,
    seq_gen_cls: Any = None,
    extra_gen_cls_kwargs: dict[str, Any] | None = None,
    prefix_allowed_tokens_fn: Any = None,
) -> Any:
    """Return a Generator that follows --length-penalty, or one of fairseq's generators.

    build_fairseq_generator: FairseqTask.build_generator of the task; the arguments after it are
    those of build_generator. Raises InputError for invalid search settings.
    """
    extra = extra_gen_cls_kwargs or {}
    if (language_model := extra.get("lm_model")) is not None:
        _check_language_model(language_model, task.target_dictionary)
    _prepare(task, models)
    trees = holds_trees(first_directory(task.cfg.data))
    # fairseq's hub interface takes the task's option with those of the search
    length_penalty = str(dict(_as_mapping(args)).get("length_penalty", task.cfg.length_penalty))
    defaults = {} if prefix_allowed_tokens_fn else search_defaults(args, length_penalty, trees)
    options = complete(args, defaults)
    if options.retain_dropout and any(isinstance(model, AiaynTransformer) for model in models):
        raise InputError("--retain-dropout has no effect on the plugin's models: omit it")
    options.prefix_allowed_tokens_fn = prefix_allowed_tokens_fn or options.prefix_allowed_tokens_fn
    custom = "seq_gen_cls" if seq_gen_cls else None
    if options.score_reference:
        custom = "--score-reference"
    if reason := custom or _find_fairseq_only(options, models, extra):
        _check_fairseq_search(task, options, reason)
        if not custom:
            _prepare_fairseq_search(models, options, reason)
        return build_fairseq_generator(
            models, options, seq_gen_cls, extra, prefix_allowed_tokens_fn
        )
    constraint = _tree_grammar(task, trees) if task.cfg.trees_only else None
    if trees and task.training_cfg is None:
        logger.info(
            "the targets are trees: aiayn score LOG --data %s computes their F1; BLEU would only "
            "compare brackets",
            task.cfg.data,
        )
    return Generator(
        models,
        task.target_dictionary,
        search_settings(options, length_penalty),
        constraint=constraint,
        alignment=options.print_alignment,
        no_repeat_ngram_size=options.no_repeat_ngram_size,
        **extra,
    )


def _find_fairseq_only(options: Namespace, models: list, extra: Mapping[str, Any]) -> str | None:
    """Return an option, model or argument that only fairseq's search supports, or None."""
    return (
        find_fairseq_only_option(options)
        or find_fairseq_only_model(models, bool(options.print_alignment))
        or ("extra_gen_cls_kwargs" if extra.keys() - {"lm_model", "lm_weight"} else None)
    )


def _check_fairseq_search(task: Any, options: Namespace, reason: str) -> None:
    """Raise InputError for options that fairseq's search does not support.

    reason: why fairseq's search is used.
    """
    if task.cfg.trees_only:
        raise InputError(
            f"--trees-only does not work with {reason}, which needs fairseq's search: omit one of "
            "them"
        )
    if options.no_repeat_ngram_size > 0 and not is_cuda_extension_usable():
        raise InputError(
            "--no-repeat-ngram-size has no effect in fairseq's search without its CUDA "
            f"extension, and {reason} needs fairseq's search: omit one of them"
        )


def _check_language_model(model: Any, dictionary: Any) -> None:
    """Raise InputError if --lm-path holds no language model, or one with a different dictionary."""
    if not isinstance(model, FairseqLanguageModel):
        raise InputError("--lm-path does not hold a language model")
    if model.decoder.dictionary.symbols != dictionary.symbols:
        raise InputError(
            "the model of --lm-path has a different dictionary: give one that was trained with the "
            "translation model's target dictionary"
        )


def _prepare_fairseq_search(models: list, options: Namespace, reason: str) -> None:
    """Check the beam, pass it to models that need it, and log why fairseq's search is used.

    Raises InputError for an invalid beam.
    """
    if options.beam < 1:
        raise InputError(f"--beam {options.beam} must be at least 1")
    for model in models:
        for module in model.modules():
            # ConvS2S takes its beam from its configuration. fairseq's attention has set_beam_size
            # too, but would then share keys between the sentences of a training batch.
            if isinstance(module, BeamableMM):
                module.set_beam_size(options.beam)
    logger.info(
        "%s: using fairseq's search, with --beam %s, --lenpen %s (the exponent of |Y|); "
        "--length-penalty fairseq gives fairseq's defaults",
        reason,
        options.beam,
        options.lenpen,
    )


def _tree_grammar(task: Any, trees: bool) -> TreeGrammar:
    """Return the constraint of --trees-only. Raises InputError if the data holds no trees."""
    if not trees:
        raise InputError(
            "--trees-only needs data prepared by aiayn prepare-trees, but "
            f"{task.cfg.data} holds no trees"
        )
    return TreeGrammar(task.source_dictionary.symbols, task.target_dictionary.symbols)


def check_eval_bleu_args(text: str) -> None:
    """Raise InputError if --eval-bleu-args has unknown options, or values of the wrong type."""
    try:
        options = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        options = None
    if not isinstance(options, dict):
        raise InputError(f"--eval-bleu-args: {text!r} is not a JSON object")
    defaults = vars(GenerationConfig())
    if unknown := sorted(options.keys() - defaults.keys()):
        advice = ": give --length-penalty itself" if unknown[0] == "length_penalty" else ""
        raise InputError(f"{unknown[0]} is not an option of the search (--eval-bleu-args){advice}")
    for name, value in options.items():
        try:
            typed = OmegaConf.merge(OmegaConf.structured(GenerationConfig()), {name: value})[name]
        except OmegaConfBaseException:
            typed = None
        if typed != value or (value is None and defaults[name] is not None):
            raise InputError(f"--eval-bleu-args: {name} cannot be {json.dumps(value)}")
        if name in COMMAND_OPTIONS:
            raise InputError(f"--eval-bleu-args: {name} has no use in validation: omit it")
    find_fairseq_only_option(complete(Namespace(**options), {}))


def complete(args: Any, defaults: Mapping[str, Any]) -> Namespace:
    """Return all options of a search.

    args: a GenerationConfig, or only the options that were given (--eval-bleu-args). defaults:
    those that differ from fairseq's.
    """
    fairseq_defaults = {**vars(GenerationConfig()), "prefix_allowed_tokens_fn": None}
    return Namespace(**{**fairseq_defaults, **defaults, **_as_mapping(args)})


def _as_mapping(args: Any) -> Mapping[str, Any]:
    return args if OmegaConf.is_config(args) else vars(args)


def search_defaults(args: Any, length_penalty: str, trees: bool) -> Mapping[str, Any]:
    """Return the defaults that differ from fairseq's: the paper's, if the search is the paper's.

    args: as for `complete`. trees: whether the targets are trees.
    """
    if length_penalty != "gnmt" or find_fairseq_only_option(complete(args, {})):
        return {}
    return paper_search(trees).options()


def search_settings(options: Namespace, length_penalty: str) -> SearchSettings:
    """Return the settings of the plugin's search for complete options."""
    shared = {field.name for field in fields(SearchSettings)} & vars(options).keys()
    settings = {name: getattr(options, name) for name in shared}
    settings["length_penalty"] = length_penalty
    settings["stop_early"] = options.lm_weight >= 0  # a negative weight lets scores rise
    return SearchSettings(**settings)


def find_fairseq_only_option(options: Namespace) -> str | None:
    """Return the option that requests a search that only fairseq has, or None.

    Raises InputError if options request several searches, or if an option needs a search that is
    missing.
    """
    requested = {
        "sampling": options.sampling,
        "diverse_beam_groups": options.diverse_beam_groups > 0,
        "diversity_rate": options.diversity_rate > -1,
        "match_source_len": options.match_source_len,
        "constraints": options.constraints,
        "prefix_allowed_tokens_fn": options.prefix_allowed_tokens_fn,
    }
    flags = [flag(name) for name, value in requested.items() if value]
    groups = max(options.diverse_beam_groups, 1)
    if options.beam % groups:
        raise InputError(
            f"--beam {options.beam} must be a multiple of --diverse-beam-groups {groups}"
        )
    if len(flags) > 1:
        raise InputError(f"{flags[0]} and {flags[1]} are different searches: give one of them")
    for name in ("sampling_topk", "sampling_topp"):
        if getattr(options, name) >= 0 and not options.sampling:
            raise InputError(f"{flag(name)} needs --sampling")
    return flags[0] if flags else None


def find_fairseq_only_model(models: Iterable[Any], with_alignments: bool = False) -> str | None:
    """Return the class of a model that only fairseq's search supports, or None.

    with_alignments: include models that align whole translations in a second pass.
    """
    for model in models:
        if with_alignments and getattr(model, "full_context_alignment", False):
            return type(model).__name__
        stacks = getattr(model, "encoder", None), getattr(model, "decoder", None)
        if not (
            isinstance(model, AiaynTransformer) or all(map(isinstance, stacks, SUPPORTED_STACKS))
        ):
            return type(model).__name__
    return None


def quantize_plugin_model(model: Any) -> None:
    """Make a model search with int8 matrix multiplications.

    Raises InputError for a model that is not the plugin's.
    """
    if not isinstance(model, AiaynTransformer):
        raise InputError(
            "--int8 needs one of the plugin's models: convert fairseq's transformer with aiayn "
            "convert"
        )
    quantize_linear_layers(model)


def _prepare(task: Any, models: list) -> None:
    """Prepare the CPU for a search, apply --bf16 and --int8 to models, and pack their weights.

    fairseq ignores --bf16 here. Only the models of a generation command are packed: packed models
    can only search.
    """
    if task.building:
        return
    prepare_cpu_for_search()
    root = task.cfg._get_root()
    generates = task.training_cfg is None and "common_eval" in root and root.common_eval.path
    for model in models:
        if generates and root.common.bf16:
            model.bfloat16()
        if task.cfg.int8:
            quantize_plugin_model(model)
        elif generates and isinstance(model, AiaynTransformer):
            pack_linear_layers(model)
