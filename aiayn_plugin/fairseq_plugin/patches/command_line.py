"""Patch of fairseq's command line."""

import argparse
import ast
import functools
import json
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from dataclasses import Field, fields
from difflib import get_close_matches
from typing import Any, NoReturn

from fairseq.tasks import TASK_DATACLASS_REGISTRY
from fairseq.tasks.translation import TranslationConfig

from ...paper import BIG, TINY, ModelSettings, TrainingSettings, format_architectures, paper_search
from .. import data_checks, defaults
from ..option_names import flag
from .training import join_torchrun

#: How fairseq reads options whose value is a dictionary.
DICTIONARIES: dict[str, Callable[[str], Any]] = {
    "eval_bleu_args": json.loads,
    "eval_bleu_detok_args": json.loads,
    "model_overrides": ast.literal_eval,
    "optimizer_overrides": ast.literal_eval,
}


def with_paper_defaults(parse: Callable) -> Callable:
    """Wrap parse_args_and_arch: make our task and the paper's settings the defaults.

    fairseq-generate and fairseq-interactive ignore the checkpoint's task: without --task they run
    `translation`. fairseq-train's hook for defaults, modify_parser, is not open to plugins.
    """

    def parse_args_and_arch(
        parser: ArgumentParser, input_args=None, *args, modify_parser=None, **kwargs
    ):
        parser.error = functools.partial(report_usage_error, parser)  # type: ignore[method-assign]
        known = vars(parser.parse_known_args([])[0])
        has_arch, searches = "arch" in known, "lenpen" in known  # fairseq-generate has both
        trains = has_arch and not searches
        if has_arch or searches:
            parser.formatter_class = argparse.RawDescriptionHelpFormatter
            parser.epilog = help_text(trains)
        cli_options: dict[str, Any] = {}

        def modify(parser: ArgumentParser) -> None:
            """Set defaults, now that fairseq has imported --user-dir and its --task and --arch."""
            cli_options.update(_read_given(parser, input_args, known))
            if trains and "arch" not in cli_options:  # fairseq ends with a RuntimeError
                parser.error(
                    "the following arguments are required: --arch, such as --arch aiayn_base"
                )
            if parser.get_default("task") in (None, "translation"):
                parser.set_defaults(task="aiayn_translation")
            if trains:
                parser.set_defaults(**defaults.training_defaults(cli_options))
            if modify_parser is not None:
                modify_parser(parser)

        result = parse(parser, input_args, *args, modify_parser=modify, **kwargs)
        parsed = result[0] if isinstance(result, tuple) else result
        _check_values(parser, parsed)
        join_torchrun(parsed, searches)
        data_checks.infer_languages(parsed)
        if trains:
            defaults.complete_training(parsed, cli_options)
        elif searches:
            defaults.complete_search(parsed, cli_options)
        if getattr(parsed, "bf16", False):
            # fairseq assumes a TPU for every --bf16, and would import torch_xla.
            parsed.tpu = cli_options.get("tpu", False)
        return result

    return parse_args_and_arch


def _read_given(parser: ArgumentParser, input_args: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the options on the command line, of those that fairseq's first pass knows."""
    nothing = Namespace(**dict.fromkeys(names))  # in place of the defaults
    options = vars(parser.parse_known_args(input_args, nothing)[0])
    return {name: options[name] for name in names if options[name] is not None}


def _check_values(parser: ArgumentParser, args: Namespace) -> None:
    """Exit with one line if --path is missing, or if an option's value is not a dictionary."""
    if getattr(args, "path", "") is None:
        parser.error("the following arguments are required: --path")
    for name, read in DICTIONARIES.items():
        text = getattr(args, name, None) or "{}"
        try:
            value = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            value = None
        if not isinstance(value, dict):
            kind = "JSON object" if read is json.loads else "Python dictionary"
            parser.error(f"argument {flag(name)}: {text!r} is not a {kind}")


def report_usage_error(parser: ArgumentParser, message: str) -> NoReturn:
    """Exit with one line instead of fairseq's usage, which is a hundred lines long.

    Suggests what a misspelt option or choice may mean, such as aiayn_base for aiayn_bsae.
    """
    if match := re.search(r"(.*invalid choice: '(.*?)') \(choose from (.*)\)$", message):
        wrong, known = [match[2]], re.findall(r"[^\s,']+", match[3])
        if len(known) > 10:
            message = match[1]
    elif message.startswith("unrecognized arguments: "):
        wrong = [word.partition("=")[0] for word in message.split() if word.startswith("-")]
        known = re.findall(r"--?[a-zA-Z][\w-]*", parser.format_usage())
    else:
        wrong, known = [], []
    if close := [x for word in wrong for x in get_close_matches(word, known, n=1, cutoff=0.8)]:
        message += f"; did you mean {' or '.join(dict.fromkeys(close))}?"
    help = f"{parser.prog} --help lists all options"
    if re.search(r"--arch\b", message):
        help = f"aiayn architectures lists the plugin's, {help}"
    parser.exit(2, f"{parser.prog}: error: {message} ({help})\n")


def help_text(trains: bool) -> str:
    """Return the end of --help: the options of the plugin's components, which fairseq omits."""
    omitted = {f.name for f in fields(TranslationConfig)}
    if not trains:
        omitted |= {"tokens_per_update", "no_compile"}
    task = fields(TASK_DATACLASS_REGISTRY["aiayn_translation"])
    text = "options of aiayn_plugin's task (--bf16 does not imply --tpu):"
    text += _describe(f for f in task if f.name not in omitted)
    if not trains:
        searches = (("§6.1", paper_search(trees=False)), ("trees, §6.3", paper_search(trees=True)))
        text += (
            "\n\ndefaults of its search, where --lenpen is α; a larger α favours longer outputs:\n"
        )
        return text + "\n".join(
            f"  {' '.join(f'{flag(k)} {v}' for k, v in search.options().items())} ({section})"
            for section, search in searches
        )
    # an option of the task, and one that aiayn_adam lacks
    omitted_here = {"tokens_per_update", "weight_decay"}
    training = (f for f in fields(TrainingSettings) if f.name not in omitted_here)
    return (
        "architectures of aiayn_plugin (parameters with a vocabulary of 37,000):\n\n"
        f"{format_architectures()}\n\n"
        f"model options, with base's defaults:{_describe(fields(ModelSettings))}\n\n"
        f"training options, with base's defaults:{_describe(training)}\n\n"
        f"big keeps {BIG['keep_interval_updates']} checkpoints, one every "
        f"{BIG['save_interval_updates']} updates; tiny and parser_tiny write one every "
        f"{TINY['save_interval_updates']} updates and\nhave {TINY['warmup_updates']:,} warm-up "
        f"updates and a feed-forward gain of {TINY['feed_forward_gain']}. Other defaults:\n"
        "--max-tokens 4096, --required-batch-size-multiple 1, --no-epoch-checkpoints. "
        "The schedule has no --lr.\n\n"
        f"{text}"
    )


def _describe(options: Iterable[Field]) -> str:
    lines = []
    for option in options:
        members = getattr(option.type, "__members__", ())
        choices: Iterable[str] = option.metadata.get("choices") or members
        lines.append(f"\n  {flag(option.name)} {'|'.join(choices)}".ljust(43))
        text = option.metadata["help"]
        shown = option.default not in (None, False) and "default" not in text
        lines.append(f"{text} (default: {option.default})" if shown else text)
    return "".join(lines)
