"""A command of fairseq that ends with the process that started it, however that process ends.

    python end_with_parent.py preprocess ARGUMENTS

The standard input is a pipe, and the parent holds its other end.
"""

import os
import runpy
import signal
import sys
import threading


def end_with_parent() -> None:
    """Wait until the parent is gone, then kill this process and its workers.

    A worker that is left alone would wait for its parent for ever.
    """
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    os.setpgid(0, 0)
    threading.Thread(target=end_with_parent, daemon=True).start()
    del sys.argv[0]
    del sys.path[0]  # the directory of this file, which the command itself would not have there
    runpy.run_module(f"fairseq_cli.{sys.argv[0]}", run_name="__main__", alter_sys=True)
