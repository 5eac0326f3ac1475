#!/usr/bin/env python3
"""`aiayn prepare-trees`, for use in a checkout."""

import sys

try:
    from aiayn_plugin.cli import main
except ImportError as error:
    sys.exit(
        f"trees.py: error: the plugin is not installed ({error}): "
        "run bash examples/setup.sh, or pip install ."
    )

main(["prepare-trees", *sys.argv[1:]])
