"""Finished data directories: their settings, completeness and checksums."""

from dataclasses import asdict, replace
from pathlib import Path

from ..errors import InputError
from ..text.manifest import MANIFEST, describe_change, read_manifest
from ..text.settings import SACREMOSES, SETTINGS_FILE, TextSettings
from .console import progress, say

#: Bytes below which the check is too fast to show progress.
MIN_PROGRESS_BYTES = 100_000_000


def check_name(directory: Path, option: str) -> None:
    """Raise InputError if the directory given with this option has a colon in its name."""
    if ":" in str(directory):
        raise InputError(f"{option} {directory}: fairseq splits the name at the colon")


def is_up_to_date(data: Path, program: str, option: str, settings: TextSettings) -> bool:
    """Return whether a data directory is finished; False if it is missing or empty.

    Raises InputError if it is not a data directory, has different settings or inputs, or if a file
    of its manifest is missing or has a different size. Library versions are not compared: a newer
    library does not invalidate finished data. The error messages name program and option.
    """
    if not data.exists() or (data.is_dir() and not any(data.iterdir())):
        return False
    if not (data / SETTINGS_FILE).is_file():
        raise InputError(f"{data} exists, but was not made by {program}; choose another {option}")
    existing = TextSettings.load(data / SETTINGS_FILE)
    ours, theirs = (
        asdict(replace(each, versions={}, codes_sha256="", inputs={}))
        for each in (settings, existing)
    )
    names = [name for name in ours if ours[name] != theirs[name]]
    differences = [f"{name} (was {theirs[name]}, now {ours[name]})" for name in names]
    inputs = existing.inputs.items() ^ settings.inputs.items()
    differences += sorted(f"input {name}" for name in {name for name, _ in inputs})
    if differences:
        advice = f"choose another {option} or delete this directory"
        if names == ["tokenizer"]:
            made, give = "without", "omit"
            if existing.tokenizer == SACREMOSES:
                made, give = "with", "give"
            advice = f"it was made {made} --protect-patterns: {give} this option, or {advice}"
        raise InputError(f"{data} has different settings: {', '.join(differences)}; {advice}")
    for name, checksum in read_manifest(data).items():
        if change := describe_change(data / name, checksum, contents=False):
            raise InputError(f"{change}; delete {data} to prepare it again")
    return True


def check(directory: Path) -> None:
    """Compare all files of a data directory, or of its data/, with their checksums.

    Print a line for each changed file. Raises InputError if there is one, or no checksums.
    """
    if not directory.is_dir():
        raise InputError(f"{directory} is not a directory")
    if any((directory / "data" / name).exists() for name in (MANIFEST, SETTINGS_FILE)):
        directory /= "data"  # of a run directory
    manifest = read_manifest(directory)
    if not manifest:
        raise InputError(
            f"{directory} has no {MANIFEST}: give a directory made by aiayn prepare, "
            "prepare-trees, wmt14 or bundle"
        )
    total = sum(checksum.size for checksum in manifest.values())
    with progress(f"checking {directory}", total if total > MIN_PROGRESS_BYTES else 0) as add:
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
    print(f"{directory}: all {len(manifest)} files are unchanged ({total:,} bytes)", flush=True)
