"""--check DIR: whether each file of prepared data is as it was made."""

import argparse
from pathlib import Path
from typing import Any

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.manifest import MANIFEST, describe_change, read_manifest
from aiayn_plugin.text.settings import SETTINGS_FILE

from .console import progress, run_command, say

#: Bytes that are read in no time, without a bar or lines of progress.
QUICK = 100_000_000


def add_check(parser: argparse.ArgumentParser) -> None:
    """Add the option --check to a parser. As --help, it needs no other option and ends the run."""
    parser.add_argument(
        "--check",
        metavar="DIR",
        type=Path,
        action=_Check,
        help="read all files "
        "of prepared data, name each one that is not as it was made, and do no "
        "more",
    )


class _Check(argparse.Action):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: Any,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        parser.exit(run_command(parser.prog, lambda: check(values), "nothing was changed"))


def check(directory: Path) -> None:
    """Compare all files of a data directory, or of its data/, with their checksums.

    Print a line for each one that differs. Raises InputError if one does, or if there is nothing to
    compare with.
    """
    if not directory.is_dir():
        raise InputError(f"{directory} is no directory")
    # wmt14.py made such a data/; beside it an older version has put another file of this name.
    if any((directory / "data" / name).exists() for name in (MANIFEST, SETTINGS_FILE)):
        directory /= "data"
    manifest = read_manifest(directory)
    if not manifest:
        raise InputError(
            f"{directory} has no {MANIFEST}, so nothing tells how its files were "
            "made: prepare.py and wmt14.py write one, older versions did not"
        )
    total = sum(checksum.size for checksum in manifest.values())
    quick = total <= QUICK
    with progress(
        lambda done: f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB",
        None if quick else total,
        disable=quick,
        unit="B",
        unit_scale=True,
    ) as add:
        changes = [
            describe_change(directory / name, checksum, True, add)
            for name, checksum in manifest.items()
        ]
    wrong = [line for line in changes if line]
    for line in wrong:
        say(line)
    if wrong:
        raise InputError(
            f"{len(wrong)} of the {len(manifest)} files in {directory} are not as "
            "they were made: get them anew, or delete the directory and prepare it "
            "anew"
        )
    print(f"{directory}: all {len(manifest)} files are as they were made ({total:,} bytes)")


def check_quickly(directory: Path) -> None:
    """Raise InputError if a file has another size than when it was made, or is missing."""
    for name, checksum in read_manifest(directory).items():
        if wrong := describe_change(directory / name, checksum, contents=False):
            raise InputError(f"{wrong}; delete {directory} to have it made anew")
