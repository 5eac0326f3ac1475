"""Mends of fairseq's command line."""

import argparse
import sys
from collections.abc import Callable
from dataclasses import fields

from ...paper import ModelSettings, table
from .. import defaults, names
from .trust import evaluate_only_literals


def with_paper_defaults(parse: Callable) -> Callable:
    """Return fairseq's parse_args_and_arch with our task and the paper's settings as defaults.

    fairseq-generate, -interactive and -validate ignore the task of the checkpoint, and take
    `translation` if none is typed. fairseq-train's own hook for defaults, modify_parser, is not
    open to plugins. Every typed flag wins. Can go when fairseq asks plugins for defaults.
    """

    def parse_args_and_arch(parser, input_args=None, *args, modify_parser=None, **kwargs):
        evaluate_only_literals()  # in the command that asks
        trains = _has(parser, "--arch")
        paper = defaults.training_defaults(input_args) if trains else {}
        if _has(parser, "--lenpen"):
            paper = defaults.search_defaults(input_args)

        def modify(parser: argparse.ArgumentParser) -> None:
            if parser.get_default("task") in (None, "translation"):
                parser.set_defaults(task="aiayn_translation")
            parser.set_defaults(**paper)
            if trains:
                parser.formatter_class = argparse.RawDescriptionHelpFormatter
                parser.epilog = help_text()
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


def help_text() -> str:
    """Return what `fairseq-train --help` ends with: fairseq shows no option of a model there."""
    model = "\n".join(
        f"  {names.flag(f.name)} {'|'.join(f.metadata['choices'] or ())}".ljust(42)
        + f.metadata["help"]
        for f in fields(ModelSettings)
    )
    return (f"architectures of aiayn_plugin (parameters with a vocabulary of 37,000):\n\n{table()}"
            f"\n\ntheir options:\n{model}")
