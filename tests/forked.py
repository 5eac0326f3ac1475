"""A program that runs many commands of fairseq, and imports fairseq once.

It reads one JSON list from standard input, the words of a command, a line, and answers with one
JSON object: its exit status, and what it printed. `python tests/forked.py PLUGIN` has imported the
plugin as `--user-dir PLUGIN` does; without an argument it knows nothing of it.
"""

import argparse
import importlib
import json
import sys
import tempfile
from pathlib import Path

from forks import forked


def run(command: list[str]) -> dict:
    """Run a command in a child process, in an empty directory, and return how it ended."""

    def work() -> None:
        sys.argv = command
        name = command[0].removeprefix("fairseq-").replace("-", "_")
        importlib.import_module(f"fairseq_cli.{name}").cli_main()

    with tempfile.TemporaryDirectory() as folder:
        end = forked(work, Path(folder))
        return {"status": end.returncode, "output": end.stdout + end.stderr}


def main() -> None:
    """Answer each line."""
    import fairseq_cli.generate
    import fairseq_cli.interactive
    import fairseq_cli.preprocess
    import fairseq_cli.score
    import fairseq_cli.train
    import fairseq_cli.validate  # noqa: F401
    from fairseq import utils

    if sys.argv[1:]:
        utils.import_user_module(argparse.Namespace(user_dir=sys.argv[1]))
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
