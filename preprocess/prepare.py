#!/usr/bin/env python3
"""`aiayn prepare`, for use in a checkout."""

import sys

from checkout import main

main(["prepare", *sys.argv[1:]])
