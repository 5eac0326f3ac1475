"""Attention Is All You Need, as a plugin of fairseq: `--user-dir aiayn_plugin`.

Importing the package registers its model, architectures, criterion, optimiser, schedule, task and
scorer.
"""

from . import compat, criterion, optimizer, scorer, task, transformer

__all__ = ["compat", "criterion", "optimizer", "scorer", "task", "transformer"]
compat.mend()
