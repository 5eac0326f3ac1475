"""A data directory that appears whole or not at all, and that is made once."""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.settings import SETTINGS_FILE, TextSettings

from .build import advice_on, differing_settings, missing_binaries
from .check import check_quickly
from .stages import locked


@dataclass(frozen=True)
class Destination:
    """The directory that a program is to make."""

    path: Path
    #: The program's name, prepare.py for example.
    program: str

    @property
    def lock(self) -> str:
        """The file that marks an unfinished directory as the program's. A run locks it."""
        return f"{self.program.removesuffix('.py')}.lock"

    def settings(self) -> TextSettings | None:
        """Return the settings of the finished directory, or None if it is missing or empty.

        Raises InputError if the directory holds anything else.
        """
        if not self.path.exists() or (self.path.is_dir() and not any(self.path.iterdir())):
            return None
        if not (self.path / SETTINGS_FILE).is_file():
            raise InputError(
                f"{self.path} exists, but was not made by {self.program}; choose another --destdir"
            )
        return TextSettings.load(self.path / SETTINGS_FILE)

    def check_same(self, existing: TextSettings, wanted: TextSettings) -> None:
        """Raise InputError unless the directory is whole, with the wanted settings and inputs."""
        names = differing_settings(existing, wanted)
        differences = [
            f"{name} ({getattr(existing, name)} there, {getattr(wanted, name)} now)"
            for name in names
            if name != "inputs"
        ]
        inputs = existing.inputs.items() ^ wanted.inputs.items()
        differences += sorted(f"input {name}" for name in {name for name, _ in inputs})
        advice = "choose another --destdir or delete this one"
        if differences:
            raise InputError(
                f"{self.path} belongs to other settings: {', '.join(differences)}; "
                f"{advice_on(names, existing)}{advice}"
            )
        splits = dict.fromkeys(name.partition(".")[0] for name in wanted.inputs)
        missing = missing_binaries(self.path, splits, (wanted.source_lang, wanted.target_lang))
        if not (self.path / existing.codes).is_file():
            missing.insert(0, existing.codes)
        if missing:
            raise InputError(f"{self.path} lacks {', '.join(missing)}; {advice}")
        check_quickly(self.path)
        (self.path / self.lock).unlink(missing_ok=True)  # a run was killed before it did this

    @contextlib.contextmanager
    def staging(self) -> Iterator[Path]:
        """Give a directory to fill, with work/ to work in. It becomes `path` on success, without
        work/, and is deleted on failure.

        Raises InputError if another run is filling it, or if another program made it.
        """
        unfinished = self.path.with_name(self.path.name + ".part")
        unfinished.mkdir(parents=True, exist_ok=True)
        if any(unfinished.iterdir()) and not (unfinished / self.lock).exists():
            raise InputError(f"{unfinished} exists, but was not made by {self.program}; remove it")
        with locked(unfinished / self.lock, f"another {self.program} is making {self.path}"):
            if not unfinished.exists():  # it was renamed while this run waited for the lock
                raise InputError(f"another {self.program} has just made {self.path}")
            try:
                self._clear(unfinished)
                yield unfinished
                shutil.rmtree(unfinished / "work")
                unfinished.rename(self.path)
                (self.path / self.lock).unlink(missing_ok=True)
            except BaseException:
                with contextlib.suppress(OSError):
                    self._clear(unfinished)  # the lock goes last: it says who made the directory
                    shutil.rmtree(unfinished)
                raise

    def _clear(self, unfinished: Path) -> None:
        """Remove all but the lock."""
        for leftover in unfinished.iterdir():
            if leftover.name != self.lock:
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
