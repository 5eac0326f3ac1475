#!/usr/bin/env python3
"""`aiayn wmt14`, for use in a checkout."""

import sys

try:
    from aiayn_plugin.cli import main
except ImportError as error:
    sys.exit(
        f"wmt14.py: error: the plugin is not installed ({error}): "
        "run bash examples/setup.sh, or pip install ."
    )

main(["wmt14", *sys.argv[1:]])
