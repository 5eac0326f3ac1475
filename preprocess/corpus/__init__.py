"""The steps that the commands share, from public archives to a fairseq data directory."""

import importlib
import sys
from pathlib import Path

try:
    importlib.import_module("aiayn_plugin.text.pipeline")
except ImportError as error:
    sys.exit(
        f"{Path(sys.argv[0]).name}: error: the plugin is not installed ({error}): "
        "run bash examples/setup.sh, or pip install ."
    )
