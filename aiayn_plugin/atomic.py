"""Atomic writes: a file or directory gets its final name when it is complete.

Data is written under a temporary name next to the final one (`model.pt.tmp`, `.data.unfinished`)
and renamed. The writer holds an advisory lock (flock) on the temporary file or directory, which
ends with the process. So the next writer can tell a concurrent one, which it must not disturb,
from the leftover of a killed one, which it removes. On a file system without locks two concurrent
writers of the same output would overwrite each other.
"""

import errno
import fcntl
import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import InputError

#: Full disk, exceeded quota, and the shell's file size limit.
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def write_file_atomically(path: Path) -> Iterator[Path]:
    """Yield an empty temporary file, which replaces `path` if the `with` block succeeds.

    Creates the parent directory. Raises InputError if the disk is full or another process is
    writing `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _reserve(_temporary_file(path), path, lambda file: file.touch(exist_ok=False)) as file:
        yield file
        _flush_to_disk(file)
        os.replace(file, path)


@contextmanager
def write_directory_atomically(directory: Path, replace: bool = False) -> Iterator[Path]:
    """Yield a temporary directory, which becomes `directory` if the `with` block succeeds.

    Raises InputError if `directory` exists, is not empty and may not be replaced, if the disk is
    full, or if another process is writing `directory`.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    temporary = directory.with_name(f".{directory.name}.unfinished")
    with _reserve(temporary, directory, Path.mkdir):
        if not replace and directory.exists() and not _is_empty_directory(directory):
            raise InputError(f"{directory} already exists: choose another output directory")
        yield temporary
        for file in filter(Path.is_file, temporary.rglob("*")):
            _flush_to_disk(file)
        if replace:
            shutil.rmtree(directory, ignore_errors=True)
        temporary.rename(directory)


def link_or_copy_atomically(source: Path, path: Path) -> None:
    """Make `path` a hard link to `source`, or a copy where hard links are not supported."""
    temporary = _temporary_file(path)
    _remove_leftover(temporary, path)
    with open(source, "rb") as file:
        with suppress(BlockingIOError):
            _try_lock(file.fileno())  # the link is the same file, so it is locked as well
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
            if _try_lock(file.fileno()):
                path.unlink()


@contextmanager
def hold_lock(path: Path, busy: str, patience: float = 5.0) -> Iterator[None]:
    """Hold a lock on a file, which is created if it is missing.

    Forked worker processes share the lock of a killed process until they end, so wait up to
    `patience` seconds. Raises InputError with the message `busy` if the lock is still held then.
    """
    deadline = time.monotonic() + patience
    with open(path, "w") as file:
        while True:
            try:
                _try_lock(file.fileno())
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise InputError(busy) from None
            time.sleep(0.05)
        yield


def find_os_error(error: BaseException | None) -> OSError | None:
    """Return the OSError in the chain of causes of an exception, or None.

    torch, for example, raises a RuntimeError when the disk is full.
    """
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error


def _temporary_file(path: Path) -> Path:
    return path.with_name(path.name + ".tmp")


@contextmanager
def _reserve(temporary: Path, path: Path, create: Callable[[Path], None]) -> Iterator[Path]:
    """Create and lock the temporary file or directory of `path`; remove it if it still exists."""
    descriptor = _create_and_lock(temporary, path, create)
    try:
        yield temporary
    except Exception as error:
        if (cause := find_os_error(error)) is not None and cause.errno in DISK_FULL:
            raise InputError(
                f"{path} cannot be written: {os.strerror(cause.errno)}; free disk space and "
                "run the same command again"
            ) from error
        raise
    finally:
        if _names_open_file(temporary, descriptor):
            _remove(temporary)
        os.close(descriptor)


def _create_and_lock(temporary: Path, path: Path, create: Callable[[Path], None]) -> int:
    """Return the locked descriptor of a new file or directory.

    Another process may remove it as a leftover before it is locked, so try again. A thousand
    failures are not a race: the last one raises its error.
    """
    races = (FileExistsError, FileNotFoundError, BlockingIOError)
    for attempt in itertools.count():
        _remove_leftover(temporary, path)
        with suppress(*races if attempt < 1000 else ()):
            create(temporary)
            descriptor = _open(temporary)
            try:
                _try_lock(descriptor)
                if _names_open_file(temporary, descriptor):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
    raise AssertionError("unreachable")


def _open(path: Path) -> int:
    """Open a file for writing, without which NFS does not lock it, or a directory for reading."""
    return os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)


def _try_lock(descriptor: int) -> bool:
    """Lock an open file; return False if its file system does not support locks.

    Raises BlockingIOError if another process holds the lock.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def _names_open_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _is_empty_directory(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _flush_to_disk(file: Path) -> None:
    """Wait until a file is on disk; some file systems report only now that they are full."""
    with open(file, "rb") as content:
        os.fsync(content.fileno())


def _remove_leftover(temporary: Path, path: Path) -> None:
    """Remove what a killed process left; writing to it could change a hard-linked checkpoint.

    Raises InputError if a process that is writing `path` holds its lock.
    """
    with suppress(FileNotFoundError):
        descriptor = _open(temporary)
        try:
            _try_lock(descriptor)
            _remove(temporary)
        except BlockingIOError:
            raise InputError(f"another command is writing {path}: wait until it ends") from None
        finally:
            os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
