"""Atomic writes: no partial output under its final name, and no leftovers of killed commands."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from commands import file_size_limit

from aiayn_plugin.atomic import (
    find_os_error,
    hold_lock,
    link_or_copy_atomically,
    remove_leftovers,
    write_directory_atomically,
    write_file_atomically,
)
from aiayn_plugin.errors import InputError

both_writers = pytest.mark.parametrize(
    "write_atomically", [write_file_atomically, write_directory_atomically]
)

#: A command that is killed while it writes.
KILLED = """
import os, signal
from pathlib import Path
from aiayn_plugin.atomic import write_directory_atomically, write_file_atomically
with {writer}(Path({path!r})) as temporary:
    (temporary / "file" if temporary.is_dir() else temporary).write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names_in(directory):
    return sorted(path.name for path in directory.iterdir())


def test_directory_appears_complete_or_not_at_all(tmp_path):
    output = tmp_path / "new" / "bundle"
    with pytest.raises(KeyError), write_directory_atomically(output) as directory:
        (directory / "a").write_text("half")
        raise KeyError
    assert names_in(output.parent) == []
    with write_directory_atomically(output) as directory:
        (directory / "a").write_text("complete")
        assert not output.exists()
    assert names_in(output.parent) == ["bundle"]
    assert (output / "a").read_text() == "complete"


def test_a_directory_with_the_name_of_a_temporary_file_is_kept(tmp_path):
    (tmp_path / "a.pt.tmp").mkdir()
    (tmp_path / "a.pt.tmp" / "mine").touch()
    message = "a.pt.tmp, the temporary name of .*a.pt, is a directory"
    with pytest.raises(InputError, match=message), write_file_atomically(tmp_path / "a.pt"):
        pass
    assert (tmp_path / "a.pt.tmp" / "mine").exists()


def test_only_an_empty_directory_is_replaced_unless_requested(tmp_path):
    output = tmp_path / "data"
    output.mkdir()
    with write_directory_atomically(output) as directory:
        (directory / "old").touch()
    with pytest.raises(InputError, match="already exists"), write_directory_atomically(output):
        pass
    assert names_in(output) == ["old"]
    with pytest.raises(KeyError), write_directory_atomically(output, replace=True):
        raise KeyError
    assert names_in(output) == ["old"]
    with write_directory_atomically(output, replace=True) as directory:
        (directory / "new").touch()
    assert names_in(output) == ["new"] and names_in(tmp_path) == ["data"]


@both_writers
def test_leftover_of_a_killed_command_is_removed(tmp_path, write_atomically):
    output = tmp_path / "out"
    program = KILLED.format(writer=write_atomically.__name__, path=str(output))
    assert subprocess.run([sys.executable, "-c", program]).returncode == -9
    assert not output.exists() and len(names_in(tmp_path)) == 1
    with write_atomically(output) as temporary:
        assert temporary.is_file() and not temporary.read_text() or not any(temporary.iterdir())
    assert names_in(tmp_path) == ["out"]


@both_writers
def test_concurrent_writer_is_refused(tmp_path, write_atomically):
    with write_atomically(tmp_path / "out") as temporary:
        with pytest.raises(InputError, match="another command is writing .*/out: wait"):
            with write_atomically(tmp_path / "out"):
                pass
        remove_leftovers(tmp_path.iterdir())
        assert temporary.exists()
    assert names_in(tmp_path) == ["out"]


#: A command that writes an output again and again; it may only succeed or be refused.
WRITES = """
from pathlib import Path
from aiayn_plugin.atomic import write_directory_atomically, write_file_atomically
from aiayn_plugin.errors import InputError
path = Path({path!r})
for _ in range(300):
    try:
        with {writer}(path, *{arguments!r}) as temporary:
            (temporary / "file" if temporary.is_dir() else temporary).write_text("complete")
    except InputError as error:
        assert "another command is writing" in str(error), error
"""


@both_writers
def test_two_writers_succeed_or_are_refused(tmp_path, write_atomically):
    arguments = (True,) if write_atomically is write_directory_atomically else ()
    program = WRITES.format(
        writer=write_atomically.__name__, path=str(tmp_path / "out"), arguments=arguments
    )
    command = [sys.executable, "-c", program]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [writer.communicate()[1] for writer in writers] == ["", ""]
    assert names_in(tmp_path) == ["out"]


def test_new_file_that_is_removed_as_a_leftover_is_created_again(tmp_path, monkeypatch):
    """Before the writer locks its new file, another process may lock and remove it."""
    touch = Path.touch

    def touch_and_lock(path, **options):
        touch(path, **options)
        other = open(path, "r+b")
        fcntl.flock(other, fcntl.LOCK_EX)
        monkeypatch.undo()
        threading.Timer(0.1, lambda: (path.unlink(), other.close())).start()

    monkeypatch.setattr(Path, "touch", touch_and_lock)
    with write_file_atomically(tmp_path / "out") as temporary:
        temporary.write_text("complete")
    assert (tmp_path / "out").read_text() == "complete" and names_in(tmp_path) == ["out"]


@both_writers
def test_file_of_the_next_writer_is_kept(tmp_path, monkeypatch, write_atomically):
    """An interrupt may arrive when the output has its final name and the next writer has begun."""
    temporaries = []

    def rename(old, new):
        monkeypatch.undo()
        os.replace(old, new)
        old.touch()
        temporaries.append(old)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", rename)
    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(KeyboardInterrupt), write_atomically(tmp_path / "out"):
        pass
    assert (tmp_path / "out").exists() and temporaries[0].exists()


def test_file_of_the_next_writer_is_kept_after_linking(tmp_path, monkeypatch):
    source, link, temporary = (tmp_path / name for name in ("a.pt", "b.pt", "b.pt.tmp"))
    source.write_text("complete")

    def replace(old, new):
        monkeypatch.undo()
        os.replace(old, new)
        old.touch()

    monkeypatch.setattr(os, "replace", replace)
    link_or_copy_atomically(source, link)
    assert os.path.samefile(source, link) and temporary.exists()


def test_file_that_replaced_a_leftover_is_kept(tmp_path, monkeypatch):
    """A writer may replace a leftover that another process has opened to remove it."""
    path, flock = tmp_path / "out.tmp", fcntl.flock

    def replace_and_lock(*arguments):
        monkeypatch.undo()
        path.unlink()
        path.write_text("of the next writer")
        flock(*arguments)

    path.touch()
    monkeypatch.setattr(fcntl, "flock", replace_and_lock)
    remove_leftovers([path])
    assert path.read_text() == "of the next writer"


def test_lock_excludes_others_until_it_is_released(tmp_path):
    with hold_lock(tmp_path / "lock", "busy"):
        with pytest.raises(InputError, match="^busy$"):
            with hold_lock(tmp_path / "lock", "busy", timeout=0):
                pass
    with hold_lock(tmp_path / "lock", "busy", timeout=0):
        pass


def test_leftover_hard_link_is_removed_without_changing_its_file(tmp_path):
    """A command that is killed between linking and renaming leaves such a link."""
    (tmp_path / "checkpoint_1_20.pt").write_text("complete")
    (tmp_path / "checkpoint_last.pt.tmp").hardlink_to(tmp_path / "checkpoint_1_20.pt")
    with write_file_atomically(tmp_path / "checkpoint_last.pt") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "checkpoint_1_20.pt").read_text() == "complete"
    assert (tmp_path / "checkpoint_last.pt").read_text() == "new"


def test_full_disk_is_one_line_and_keeps_the_old_file(tmp_path):
    path = tmp_path / "model.pt"
    path.write_text("old")
    message = "model.pt cannot be written: File too large; free disk space"
    with file_size_limit(1000), pytest.raises(InputError, match=message):
        with write_file_atomically(path) as temporary:
            temporary.write_bytes(bytes(2000))
    assert path.read_text() == "old" and names_in(tmp_path) == ["model.pt"]


def test_link_replaces_its_target_and_survives_its_source(tmp_path):
    source, link = tmp_path / "a.pt", tmp_path / "b.pt"
    source.write_text("new")
    link.write_text("old")
    (tmp_path / "b.pt.tmp").write_text("leftover of a killed command")
    link_or_copy_atomically(source, link)
    link_or_copy_atomically(source, link)  # now both are the same file
    assert os.path.samefile(source, link)
    source.unlink()
    assert link.read_text() == "new" and names_in(tmp_path) == ["b.pt"]


def test_a_copy_replaces_its_target_where_hard_links_are_not_supported(tmp_path, monkeypatch):
    def link(source, target):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", link)
    source, copy = tmp_path / "a.pt", tmp_path / "b.pt"
    source.write_text("new")
    copy.write_text("old")
    link_or_copy_atomically(source, copy)
    assert copy.read_text() == "new" and not os.path.samefile(source, copy)
    assert names_in(tmp_path) == ["a.pt", "b.pt"]


@both_writers
def test_output_that_cannot_be_flushed_to_disk_is_not_kept(tmp_path, monkeypatch, write_atomically):
    """A disk or a network file system may report only here that it is full."""

    def fsync(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(InputError, match="out cannot be written: No space left on device"):
        with write_atomically(tmp_path / "out") as temporary:
            (temporary / "a" if temporary.is_dir() else temporary).write_text("complete")
    assert names_in(tmp_path) == []


def test_os_error_is_found_in_the_chain_of_causes():
    try:
        try:
            raise OSError(28, "full")
        finally:
            raise RuntimeError("raised by torch")
    except RuntimeError as error:
        assert find_os_error(error).errno == 28
    assert find_os_error(RuntimeError()) is None


def test_device_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/stdout")):
        message = f"{path} is not a regular file: choose another output"
        with pytest.raises(InputError, match=message), write_file_atomically(path):
            pass
    assert names_in(tmp_path) == ["pipe"]


@pytest.mark.parametrize("name", ["../link", "."])
def test_directory_may_be_named_by_a_link_or_a_dot(tmp_path, monkeypatch, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    monkeypatch.chdir(tmp_path / "empty")
    with write_directory_atomically(Path(name)) as directory:
        (directory / "a").write_text("complete")
    assert names_in(tmp_path) == ["empty", "link"] and names_in(tmp_path / "empty") == ["a"]


def test_mount_point_is_not_replaced():
    with pytest.raises(InputError, match="^/ is a mount point: choose a directory inside it"):
        with write_directory_atomically(Path("/")):
            pass


def test_unwritable_directory_is_an_error():
    with pytest.raises(OSError, match="/proc/1/x.tmp"), write_file_atomically(Path("/proc/1/x")):
        pass
