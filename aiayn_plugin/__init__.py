"""Attention Is All You Need, as a fairseq plugin: `--user-dir aiayn_plugin`.

When fairseq imports this directory, the package registers its model, task, criterion, optimizer,
schedule and scorer. If fairseq is not loaded yet, it registers nothing, so programs that only
process text (`aiayn_plugin.text`) load neither fairseq nor torch. Import
`aiayn_plugin.fairseq_plugin` to register them regardless of the import order.
"""

import sys

if "fairseq" in sys.modules:
    from . import fairseq_plugin

    __all__ = ["fairseq_plugin"]
