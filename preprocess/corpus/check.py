"""--check DIR: verifies the checksums of prepared data."""

import argparse
from pathlib import Path
from typing import Any

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.manifest import MANIFEST, describe_change, read_manifest
from aiayn_plugin.text.settings import SETTINGS_FILE

from .console import progress, run_command, say

#: Bytes below which the check is too fast to show progress.
QUICK = 100_000_000


def add_check(parser: argparse.ArgumentParser) -> None:
    """Add the option --check to a parser. Like --help, it needs no other option and then exits."""
    parser.add_argument(
        "--check",
        metavar="DIR",
        type=Path,
        action=_Check,
        help="verify the checksums of prepared data, list changed files, and exit",
    )


class _Check(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        parser.exit(run_command(parser.prog, lambda: check(values), "nothing was changed"))


def check(directory: Path) -> None:
    """Compare all files of a data directory, or of its data/, with their checksums.

    Print a line for each changed file. Raises InputError if there is one, or no checksums.
    """
    if not directory.is_dir():
        raise InputError(f"{directory} is not a directory")
    if any((directory / "data" / name).exists() for name in (MANIFEST, SETTINGS_FILE)):
        directory /= "data"  # made by wmt14.py
    manifest = read_manifest(directory)
    if not manifest:
        raise InputError(
            f"{directory} has no {MANIFEST}: give a directory made by prepare.py, trees.py or "
            "wmt14.py"
        )
    total = sum(checksum.size for checksum in manifest.values())
    quick = total <= QUICK
    bar: dict[str, Any] = {"disable": quick, "unit": "B", "unit_scale": True}
    with progress(
        lambda done: f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB", None if quick else total, **bar
    ) as add:
        changes = [
            change
            for name, checksum in manifest.items()
            if (change := describe_change(directory / name, checksum, contents=True, progress=add))
        ]
    for change in changes:
        say(change)
    if changes:
        raise InputError(
            f"{len(changes)} of the {len(manifest)} files in {directory} have changed: copy them "
            "again, or delete the directory and prepare the data again"
        )
    print(f"{directory}: all {len(manifest)} files are unchanged ({total:,} bytes)")
