#!/usr/bin/env python3
"""`aiayn prepare-trees`, for use in a checkout."""

import sys

from checkout import main

main(["prepare-trees", *sys.argv[1:]])
