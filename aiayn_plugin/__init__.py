"""Attention Is All You Need, as a fairseq plugin: `--user-dir aiayn_plugin`.

fairseq imports this package by the name of its directory, and then the package registers its model,
task, criterion, optimizer, schedule and scorer. If fairseq is not loaded yet, it registers nothing,
so that a program that only reads text (`aiayn_plugin.text`) loads neither fairseq nor torch. To
register them in either order, import `aiayn_plugin.fairseq_plugin`.
"""

import sys

if "fairseq" in sys.modules:
    from . import fairseq_plugin

    __all__ = ["fairseq_plugin"]
