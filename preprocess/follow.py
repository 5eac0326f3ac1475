"""Runs a command of fairseq that ends with the process that started it, however that ends.

    python follow.py preprocess ARGUMENTS

Its standard input is a pipe whose other end the parent holds.
"""

import os
import runpy
import signal
import sys
import threading


def follow() -> None:
    os.read(0, 1)  # until the parent is gone
    os.killpg(0, signal.SIGKILL)  # with the workers, which would wait for their parent for ever


if __name__ == "__main__":
    os.setpgid(0, 0)
    threading.Thread(target=follow, daemon=True).start()
    del sys.argv[0]
    del sys.path[0]  # this directory, in place of the one of the command
    runpy.run_module(f"fairseq_cli.{sys.argv[0]}", run_name="__main__", alter_sys=True)
