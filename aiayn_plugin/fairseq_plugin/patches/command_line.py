"""Mends of fairseq's command line."""

import argparse
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields

from fairseq.tasks import TASK_DATACLASS_REGISTRY
from fairseq.tasks.translation import TranslationConfig

from ...paper import ModelSettings, format_architectures
from .. import defaults
from .. import option_names as names
from .trust import evaluate_only_literals


def with_paper_defaults(parse: Callable) -> Callable:
    """Return fairseq's parse_args_and_arch with our task and the paper's settings as defaults.

    fairseq-generate, -interactive and -validate ignore the task of the checkpoint, and take
    `translation` if none is typed. fairseq-train's own hook for defaults, modify_parser, is not
    open to plugins. Every typed flag wins. Can go when fairseq asks plugins for defaults.
    """

    def parse_args_and_arch(parser, input_args=None, *args, modify_parser=None, **kwargs):
        evaluate_only_literals()  # in the command that asks
        trains, searches = _has(parser, "--arch"), _has(parser, "--lenpen")
        paper = defaults.training_defaults(input_args) if trains else {}
        if searches:
            paper = defaults.search_defaults(input_args)

        def modify(parser: argparse.ArgumentParser) -> None:
            if parser.get_default("task") in (None, "translation"):
                parser.set_defaults(task="aiayn_translation")
            parser.set_defaults(**paper)
            if trains or searches:
                parser.formatter_class = argparse.RawDescriptionHelpFormatter
                parser.epilog = help_text(trains)
            if modify_parser is not None:
                modify_parser(parser)

        result = parse(parser, input_args, *args, modify_parser=modify, **kwargs)
        parsed = result[0] if isinstance(result, tuple) else result
        if getattr(parsed, "bf16", False):
            # fairseq takes every --bf16 for a TPU's, and would look for torch_xla.
            parsed.tpu = "--tpu" in (sys.argv if input_args is None else input_args)
        return result

    return parse_args_and_arch


def _has(parser: argparse.ArgumentParser, option: str) -> bool:
    return any(option in action.option_strings for action in parser._actions)


def help_text(trains: bool) -> str:
    """Return what --help ends with: fairseq shows no option of a model or of a task there."""
    fairseqs = {f.name for f in fields(TranslationConfig)}
    task = [
        _option(f.name, getattr(f.type, "__members__", ()), f.metadata["help"])
        for f in fields(TASK_DATACLASS_REGISTRY["aiayn_translation"])
        if f.name not in fairseqs and f.metadata["help"] != argparse.SUPPRESS
    ]
    text = "options of aiayn_plugin's task:\n" + "\n".join(task)
    if not trains:
        return text
    model = [
        _option(f.name, f.metadata["choices"] or (), f.metadata["help"])
        for f in fields(ModelSettings)
    ]
    return (
        "architectures of aiayn_plugin (parameters with a vocabulary of 37,000):\n\n"
        f"{format_architectures()}\n\ntheir options:\n" + "\n".join(model) + "\n\n" + text
    )


def _option(name: str, choices: Iterable[str], text: str) -> str:
    return f"  {names.flag(name)} {'|'.join(choices)}".ljust(42) + text
