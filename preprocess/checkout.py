"""`main` of `aiayn`, for the scripts that run one of its commands in a checkout."""

import sys
from pathlib import Path

try:
    from aiayn_plugin.cli import main as main
except ImportError as error:
    sys.exit(
        f"{Path(sys.argv[0]).name}: error: the plugin is not installed ({error}): "
        "run bash examples/setup.sh, or pip install ."
    )
