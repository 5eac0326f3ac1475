"""Atomic writes: a file or directory gets its final name when it is complete.

Data is written under a temporary name next to the final one (`model.pt.tmp`, `.data.unfinished`)
and renamed. The writer holds an advisory lock (flock) on the temporary file or directory, which
ends with the process. So the next writer can tell a concurrent one, which it must not disturb,
from the leftover of a killed one, which it removes. On a file system without locks two concurrent
writers of the same output would overwrite each other.
"""

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import InputError

#: Full disk, exceeded quota, and the shell's file size limit.
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
LOCK = fcntl.LOCK_EX | fcntl.LOCK_NB


@contextmanager
def write_file_atomically(path: Path) -> Iterator[Path]:
    """Yield an empty temporary file, which replaces `path` if the `with` block succeeds.

    Creates the parent directory. Raises InputError if the disk is full or another process is
    writing `path`.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    with _reserve(temporary, path, lambda file: file.touch(exist_ok=False)):
        yield temporary
        _flush_to_disk(temporary)
        os.replace(temporary, path)


@contextmanager
def write_directory_atomically(directory: Path, replace: bool = False) -> Iterator[Path]:
    """Yield a temporary directory, which becomes `directory` if the `with` block succeeds.

    Raises InputError if `directory` exists, is not empty and may not be replaced, if the disk is
    full, or if another process is writing `directory`.
    """
    temporary = directory.with_name(f".{directory.name}.unfinished")
    with _reserve(temporary, directory, Path.mkdir):
        if not replace and directory.exists():
            if not directory.is_dir() or any(directory.iterdir()):
                raise InputError(f"{directory} already exists: choose another output directory")
        yield temporary
        for file in filter(Path.is_file, temporary.rglob("*")):
            _flush_to_disk(file)
        if replace:
            shutil.rmtree(directory, ignore_errors=True)
        temporary.rename(directory)


def link_or_copy_atomically(source: Path, path: Path) -> None:
    """Make `path` a hard link to `source`, or a copy where hard links are not supported."""
    temporary = path.with_name(f"{path.name}.tmp")
    _remove_leftover(temporary, path)
    with open(source, "rb") as file:
        with suppress(OSError):
            fcntl.flock(file, LOCK)  # the link is the same file, so it is locked as well
        try:
            os.link(source, temporary)
        except OSError:
            with write_file_atomically(path) as copy:
                shutil.copyfile(source, copy)
            return
        os.replace(temporary, path)
        temporary.unlink(missing_ok=True)  # renaming does nothing if both already were one file


def remove_leftovers(paths: Iterable[Path]) -> None:
    """Remove temporary files that no process is writing; keep those that cannot be locked."""
    for path in paths:
        with suppress(OSError), open(path, "r+b") as file:
            fcntl.flock(file, LOCK)
            path.unlink()


@contextmanager
def hold_lock(path: Path, busy: str, patience: float = 5.0) -> Iterator[None]:
    """Hold a lock on a file, which is created if it is missing.

    Forked worker processes share the lock of a killed process until they end, so wait up to
    `patience` seconds. Raises InputError with the message `busy` if the lock is still held then.
    """
    deadline = time.monotonic() + patience
    with open(path, "w") as file:
        while not _try_lock(file.fileno()):
            if time.monotonic() > deadline:
                raise InputError(busy)
            time.sleep(0.05)
        yield


def find_os_error(error: BaseException | None) -> OSError | None:
    """Return the OSError in the chain of causes of an exception, or None.

    torch, for example, raises a RuntimeError when the disk is full.
    """
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error


@contextmanager
def _reserve(temporary: Path, path: Path, create: Callable[[Path], None]) -> Iterator[None]:
    """Create and lock the temporary file or directory of `path`; remove it after an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftover(temporary, path)
    create(temporary)
    with _hold(temporary, path):
        try:
            yield
        except BaseException as error:
            _remove(temporary)
            cause = find_os_error(error)
            if isinstance(error, Exception) and cause and cause.errno in DISK_FULL:
                raise InputError(
                    f"{path} cannot be written: {os.strerror(cause.errno)}; free disk space and "
                    "run the same command again"
                ) from error
            raise


@contextmanager
def _hold(temporary: Path, path: Path) -> Iterator[None]:
    """Hold the lock of a temporary file or directory of `path`.

    Raises InputError if another process holds it or has just removed the file.
    """
    # NFS locks only files that are open for writing.
    descriptor = os.open(temporary, os.O_RDONLY if temporary.is_dir() else os.O_RDWR)
    try:
        if not _try_lock(descriptor) or not _names_open_file(temporary, descriptor):
            raise InputError(f"another command is writing {path}: wait until it ends")
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Lock an open file if its file system supports locks; return False if it is locked already."""
    try:
        fcntl.flock(descriptor, LOCK)
    except OSError as error:
        return not isinstance(error, BlockingIOError)
    return True


def _names_open_file(path: Path, descriptor: int) -> bool:
    return path.exists() and os.path.samestat(os.fstat(descriptor), path.stat())


def _flush_to_disk(file: Path) -> None:
    """Wait until a file is on disk; some file systems report only now that they are full."""
    with open(file, "rb") as content:
        os.fsync(content.fileno())


def _remove_leftover(temporary: Path, path: Path) -> None:
    """Remove what a killed process left; writing to it could change a hard-linked checkpoint."""
    with suppress(FileNotFoundError), _hold(temporary, path):
        _remove(temporary)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
