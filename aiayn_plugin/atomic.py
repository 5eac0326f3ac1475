"""Results written aside: whole under their names, and nothing stays of a command that was killed.

The place aside has a fixed name, so the next run of the same command finds and removes what a
killed one left there. Who writes there holds a lock (flock) on it. The lock ends with the process,
however that ends, so no run removes what another one is writing. Where a file system has no such
locks, two runs with the same output would disturb each other, as they do with fairseq.
"""

import errno
import fcntl
import itertools
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import InputError

#: A full disk, a quota, the shell's limit on the size of a file.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def file_aside(path: Path) -> Iterator[Path]:
    """Give an empty file, which becomes `path` if all inside `with` goes well.

    Makes the directory. Raises InputError if the disk is full, or if another command is writing it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _reserved(_of_file(path), path, lambda aside: aside.touch(exist_ok=False)) as aside:
        yield aside
        with open(aside, "rb") as file:
            os.fsync(file.fileno())  # some file systems report only now that they are full
        os.replace(aside, path)


@contextmanager
def directory_aside(directory: Path) -> Iterator[Path]:
    """Give an empty directory, which becomes `directory` if all inside `with` goes well.

    Raises InputError if `directory` is there already, if the disk is full, or if another command is
    writing it.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    aside = directory.with_name(f".{directory.name}.unfinished")
    with _reserved(aside, directory, Path.mkdir):
        if directory.exists():
            raise InputError(f"{directory} is there already: give another --output")
        yield aside
        aside.rename(directory)


def link_or_copy(source: Path, path: Path) -> None:
    """Put a file under a second name, at once and whole: as a hard link, where there are any."""
    aside = _of_file(path)
    _remove_leftover(aside, path)
    with open(source, "rb") as file:
        with suppress(BlockingIOError):
            _lock(file.fileno())  # a hard link is the same file: it is locked too
        try:
            os.link(source, aside)
        except OSError:
            with file_aside(path) as aside:
                shutil.copyfile(source, aside)
            return
        os.replace(aside, path)
        aside.unlink(missing_ok=True)  # it stays if both were names of one file before


def remove_leftovers(paths: Iterable[Path]) -> None:
    """Remove the files aside that no process is writing; what cannot be locked stays."""
    for path in paths:
        with suppress(OSError), open(path, "r+b") as file:
            if _lock(file.fileno()):
                path.unlink()


def _of_file(path: Path) -> Path:
    return path.with_name(path.name + ".tmp")


@contextmanager
def _reserved(aside: Path, path: Path, create: Callable[[Path], None]) -> Iterator[Path]:
    """Create `aside`, the place aside of `path`, and hold its lock. Remove it if it is left."""
    races: tuple = (FileExistsError, FileNotFoundError, BlockingIOError)  # with another process
    for tries in itertools.count():
        _remove_leftover(aside, path)
        with suppress(*races if tries < 1000 else ()):  # no race lasts so long: it cannot be made
            create(aside)
            descriptor = _opened(aside)
            try:
                _lock(descriptor)
                if _is(descriptor, aside):
                    break
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
    try:
        yield aside
    except Exception as error:
        if (cause := os_error(error)) is not None and cause.errno in FULL:
            raise InputError(
                f"{path} cannot be written: {os.strerror(cause.errno)}; make room and "
                "run the same command again"
            ) from error
        raise
    finally:
        if _is(descriptor, aside):
            _remove(aside)
        os.close(descriptor)


def os_error(error: BaseException | None) -> OSError | None:
    """Return the OSError behind an exception: torch puts one of its own around it."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error


def _opened(path: Path) -> int:
    """Open a place aside. A file is opened to be written: NFS locks no other."""
    return os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)


def _lock(descriptor: int) -> bool:
    """Lock an open file, and return whether its file system has locks.

    Raises BlockingIOError if another process holds the lock.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def _is(descriptor: int, path: Path) -> bool:
    """Return whether a path still names an open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _remove_leftover(aside: Path, path: Path) -> None:
    """Remove `aside`, never write into it: it may be a hard link to a whole checkpoint.

    Raises InputError if a process that writes `path` holds its lock.
    """
    with suppress(FileNotFoundError):
        descriptor = _opened(aside)
        try:
            _lock(descriptor)
            _remove(aside)
        except BlockingIOError:
            raise InputError(f"another command is writing {path}: wait until it ends") from None
        finally:
            os.close(descriptor)


def _remove(aside: Path) -> None:
    if aside.is_dir():
        shutil.rmtree(aside, ignore_errors=True)
    else:
        aside.unlink(missing_ok=True)
