"""Attention Is All You Need, as a plugin of fairseq: `--user-dir aiayn_plugin`.

Importing the package registers its model, architectures, criterion, optimiser, schedule and task.
"""

from . import compat, criterion, optimizer, task, transformer

__all__ = ["compat", "criterion", "optimizer", "task", "transformer"]
compat.mend()
