"""Finished data directories: their settings, and whether they are complete."""

from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.manifest import describe_change, read_manifest
from aiayn_plugin.text.settings import SETTINGS_FILE, TextSettings
from aiayn_plugin.text.tokenizer import SACREMOSES

from .parallel import Langs


def read_settings(data: Path, program: str, option: str) -> TextSettings | None:
    """Return the settings of a finished data directory, or None if it is missing or empty.

    Raises InputError if the directory contains anything else; `option` chooses another one.
    """
    if not data.exists() or (data.is_dir() and not any(data.iterdir())):
        return None
    if not (data / SETTINGS_FILE).is_file():
        raise InputError(f"{data} exists, but was not made by {program}; choose another {option}")
    return TextSettings.load(data / SETTINGS_FILE)


def check_settings(data: Path, existing: TextSettings, wanted: TextSettings, option: str) -> None:
    """Raise InputError if a data directory has other settings or inputs than wanted.

    Versions do not count: a newer library does not invalidate finished data.
    """
    ours, theirs = (
        asdict(replace(settings, versions={}, codes_sha256="", inputs={}))
        for settings in (wanted, existing)
    )
    names = [name for name in ours if ours[name] != theirs[name]]
    differences = [f"{name} ({theirs[name]} there, {ours[name]} now)" for name in names]
    inputs = existing.inputs.items() ^ wanted.inputs.items()
    differences += sorted(f"input {name}" for name in {name for name, _ in inputs})
    if not differences:
        return
    advice = f"choose another {option} or delete this directory"
    if names == ["tokenizer"]:
        if existing.tokenizer == SACREMOSES:
            advice = f"it was made with --protect-patterns: give this option, or {advice}"
        else:
            advice = f"it was made without --protect-patterns: omit this option, or {advice}"
    raise InputError(f"{data} has different settings: {', '.join(differences)}; {advice}")


def check_complete(data: Path, settings: TextSettings, splits: Iterable[str]) -> None:
    """Raise InputError if a file of a data directory is missing or has changed its size."""
    langs: Langs = (settings.source_lang, settings.target_lang)
    names = [
        settings.codes,
        *(
            f"{split}.{'-'.join(langs)}.{lang}.{end}"
            for split in splits
            for lang in langs
            for end in ("bin", "idx")
        ),
    ]
    if missing := [name for name in names if not (data / name).is_file()]:
        raise InputError(f"{data} lacks {', '.join(missing)}; delete it to prepare it again")
    for name, checksum in read_manifest(data).items():
        if change := describe_change(data / name, checksum, contents=False):
            raise InputError(f"{change}; delete {data} to prepare it again")
