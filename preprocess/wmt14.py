#!/usr/bin/env python3
"""`aiayn wmt14`, for use in a checkout."""

import sys

from checkout import main

main(["wmt14", *sys.argv[1:]])
