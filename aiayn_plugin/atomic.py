"""Atomic writes: a file or directory is renamed into place once complete.

Data is written under a temporary name next to the final one (`model.pt.tmp`, `.data.unfinished`)
and renamed. The writer holds an advisory lock (flock) on the temporary file or directory, which is
released when the process ends. This lets the next writer distinguish a concurrent writer, which it
must not disturb, from the leftovers of a killed one, which it removes. On a file system without
locks two concurrent writers of the same output would overwrite each other.
"""

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from .errors import InputError

#: Full disk, exceeded quota, and the shell's file size limit.
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
LOCK = fcntl.LOCK_EX | fcntl.LOCK_NB


@contextmanager
def write_file_atomically(path: Path) -> Iterator[Path]:
    """Yield an empty temporary file, which replaces `path` if the `with` block succeeds.

    Creates the parent directory. Raises InputError if the disk is full, another process is writing
    `path`, or `path` is not a regular file (a device).
    """
    is_device = path.parent in (Path("/dev"), Path("/dev/fd"))  # or a link to a redirected file
    if is_device or path.exists() and not path.is_file():
        raise InputError(f"{path} is not a regular file: choose another output")
    temporary = path.with_name(f"{path.name}.tmp")
    with _reserve(temporary, path, lambda file: file.touch(exist_ok=False)):
        yield temporary
        _flush_to_disk(temporary)
        os.replace(temporary, path)


def write_texts_atomically(texts: Mapping[Path, str], errors: str = "strict") -> None:
    """Write text files in UTF-8; none is replaced before all of them are written.

    errors: as for open(). Raises InputError as write_file_atomically does.
    """
    with ExitStack() as stack:
        for path, text in texts.items():
            temporary = stack.enter_context(write_file_atomically(path))
            temporary.write_text(text, encoding="utf-8", errors=errors, newline="\n")


@contextmanager
def write_directory_atomically(directory: Path, replace: bool = False) -> Iterator[Path]:
    """Yield a temporary directory, which becomes `directory` if the `with` block succeeds.

    Raises InputError if `directory` exists, is not empty and may not be replaced, if it is a mount
    point, if the disk is full, or if another process is writing `directory`.
    """
    directory = directory.resolve()
    if os.path.ismount(directory):
        raise InputError(f"{directory} is a mount point: choose a directory inside it")
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
        if _names_open_file(path, file.fileno()):
            return  # renaming one of two links to the same file does nothing
        with suppress(OSError):
            fcntl.flock(file, LOCK)  # the link is the same file, so it is locked as well
        try:
            os.link(source, temporary)
        except OSError:
            with write_file_atomically(path) as copy:
                shutil.copyfile(source, copy)
            return
        os.replace(temporary, path)


def remove_leftovers(paths: Iterable[Path]) -> None:
    """Remove temporary files that no process is writing; keep those that cannot be locked."""
    for path in paths:
        with suppress(OSError), open(path, "r+b") as file:
            fcntl.flock(file, LOCK)
            if _names_open_file(path, file.fileno()):
                path.unlink()


@contextmanager
def hold_lock(path: Path, message: str, timeout: float = 5.0) -> Iterator[None]:
    """Hold a lock on a directory, or on a file, which is created if it is missing.

    Forked worker processes share the lock of a killed process until they end, so wait up to
    `timeout` seconds. Raises InputError with `message` if the lock is still held then.
    """
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _lock(descriptor, message, timeout)
        yield
    finally:
        os.close(descriptor)


def find_os_error(error: BaseException | None) -> OSError | None:
    """Return the OSError in the chain of causes of an exception, or None.

    torch, for example, raises a RuntimeError when the disk is full.
    """
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error


@contextmanager
def _reserve(temporary: Path, path: Path, create: Callable[[Path], None]) -> Iterator[None]:
    """Create and lock the temporary file or directory of `path`; on exit, remove it if left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _create_and_lock(temporary, path, create)
    try:
        yield
    except Exception as error:
        if (cause := find_os_error(error)) and cause.errno in DISK_FULL:
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

    Retry, because another process may remove it as a leftover before it is locked. After a thousand
    failures, raise the last error.
    """
    attempts = 1000
    while True:
        _remove_leftover(temporary, path)
        attempts -= 1
        try:
            create(temporary)
            return _open_and_lock(temporary, path)
        except (FileExistsError, FileNotFoundError):
            if not attempts:
                raise


def _open_and_lock(temporary: Path, path: Path) -> int:
    """Return the locked descriptor of a temporary file or directory of `path`.

    Raises FileNotFoundError if it is missing or was removed before it was locked, and InputError if
    another process keeps it locked. Processes that only remove leftovers do so briefly.
    """
    try:
        descriptor = os.open(temporary, os.O_RDWR)  # NFS locks only files open for writing
    except IsADirectoryError:
        descriptor = os.open(temporary, os.O_RDONLY)
    try:
        _lock(descriptor, f"another command is writing {path}: wait until it ends", timeout=0.5)
        if not _names_open_file(temporary, descriptor):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(temporary))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _lock(descriptor: int, message: str, timeout: float) -> None:
    """Lock an open file if its file system supports locks.

    Raises InputError with `message` if it is still locked after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, LOCK)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise InputError(message) from None
        except OSError:
            return
        time.sleep(0.01)


def _names_open_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _flush_to_disk(file: Path) -> None:
    """Wait until a file is on disk; some file systems report only now that they are full."""
    with open(file, "rb") as content:
        os.fsync(content.fileno())


def _remove_leftover(temporary: Path, path: Path) -> None:
    """Remove what a killed process left; writing to it could change a hard-linked checkpoint.

    Raises InputError for a directory with the name of a temporary file: this module creates none.
    """
    if temporary.suffix == ".tmp" and temporary.is_dir():
        raise InputError(f"{temporary}, the temporary name of {path}, is a directory: move it")
    with suppress(FileNotFoundError):
        descriptor = _open_and_lock(temporary, path)
        try:
            _remove(temporary)
        finally:
            os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
