"""The table of patches lists everything that importing the plugin replaces."""

import json
import sys

from aiayn_plugin.fairseq_plugin.patches import PATCHES

#: Prints the attributes of modules and classes that change when the plugin is imported.
COMPARE = """
import json, sys, types
import fairseq_cli.generate, fairseq_cli.train, torch

libraries = ("fairseq", "fairseq_cli", "torch")
modules = {m.__name__: m for n, m in sys.modules.items() if n.partition(".")[0] in libraries}

def attributes():
    values = {"sys.excepthook": sys.excepthook}
    for name, module in modules.items():
        for attribute, value in list(vars(module).items()):
            if not isinstance(value, types.ModuleType):
                values[f"{name}.{attribute}"] = value
            if isinstance(value, type) and value.__module__ == name:
                values |= {f"{name}.{attribute}.{key}": x for key, x in vars(value).items()}
    return values

before = attributes()
import aiayn_plugin
print(json.dumps([name for name, x in attributes().items() if before.get(name) is not x]))
"""
#: torch's list of types that weights_only accepts, to which the plugin adds plain ones.
SAFE_GLOBALS = "torch._weights_only_unpickler._marked_safe_globals_set"


def test_importing_the_plugin_replaces_the_names_in_the_table_only(succeed):
    log = succeed(sys.executable, "-c", COMPARE)
    names = {*json.loads(log.stdout.splitlines()[-1])}
    assert names - {SAFE_GLOBALS} == {patch.name for patch in PATCHES}
    assert all(patch.reason and patch.removal for patch in PATCHES)
