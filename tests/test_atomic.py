"""Atomic writes: no partial output under its final name, and no leftovers of killed commands."""

import os
import resource
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

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


def kill_while_writing(write_atomically, path):
    """Run a command that starts to write `path` and is killed."""
    program = KILLED.format(writer=write_atomically.__name__, path=str(path))
    assert subprocess.run([sys.executable, "-c", program]).returncode == -9
    assert not path.exists() and len(list(path.parent.iterdir())) == 1


@contextmanager
def file_size_limit(size):
    """Limit the size of the files that this process may write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


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


def test_only_an_empty_directory_is_replaced_unless_requested(tmp_path):
    output = tmp_path / "data"
    output.mkdir()
    with write_directory_atomically(output) as directory:
        (directory / "old").touch()
    with pytest.raises(InputError, match="data already exists"):
        with write_directory_atomically(output):
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
    kill_while_writing(write_atomically, output)
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


def test_lock_excludes_others_until_it_is_released(tmp_path):
    with hold_lock(tmp_path / "lock", "busy"):
        with pytest.raises(InputError, match="^busy$"):
            with hold_lock(tmp_path / "lock", "busy", patience=0):
                pass
    with hold_lock(tmp_path / "lock", "busy", patience=0):
        pass


def test_leftover_hard_link_is_removed_without_changing_its_file(tmp_path):
    """A command that is killed between linking and renaming leaves such a link."""
    (tmp_path / "checkpoint_1_20.pt").write_text("complete")
    (tmp_path / "checkpoint_last.pt.tmp").hardlink_to(tmp_path / "checkpoint_1_20.pt")
    with write_file_atomically(tmp_path / "checkpoint_last.pt") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "checkpoint_1_20.pt").read_text() == "complete"
    assert (tmp_path / "checkpoint_last.pt").read_text() == "new"


def test_leftovers_are_removed_by_name(tmp_path):
    kill_while_writing(write_file_atomically, tmp_path / "checkpoint_1_20.pt")
    remove_leftovers(tmp_path.glob("*.tmp"))
    assert names_in(tmp_path) == []


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


def test_os_error_is_found_in_the_chain_of_causes():
    try:
        try:
            raise OSError(28, "full")
        finally:
            raise RuntimeError("raised by torch")
    except RuntimeError as error:
        assert find_os_error(error).errno == 28
    assert find_os_error(RuntimeError()) is None


def test_unwritable_directory_is_an_error():
    with pytest.raises(OSError, match="/proc/1/x.tmp"), write_file_atomically(Path("/proc/1/x")):
        pass
