"""Results written aside: whole or not at all, and nothing stays of a command that was killed."""

import os
import resource
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from aiayn_plugin.atomic import (
    directory_aside,
    file_aside,
    link_or_copy,
    os_error,
    remove_leftovers,
)
from aiayn_plugin.errors import InputError

#: A command that is killed while it writes.
KILLED = """
import os, signal
from pathlib import Path
from aiayn_plugin.atomic import directory_aside, file_aside
with {kind}(Path({path!r})) as aside:
    (aside / "part" if aside.is_dir() else aside).write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def kill_one_that_writes(kind, path):
    """Let a command begin to write `path` and be killed."""
    program = KILLED.format(kind=kind.__name__, path=str(path))
    assert subprocess.run([sys.executable, "-c", program]).returncode == -9
    assert not path.exists() and len(list(path.parent.iterdir())) == 1


@contextmanager
def files_of_at_most(size):
    """Let no file of this process grow larger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_directory_appears_whole_or_not_at_all(tmp_path):
    output = tmp_path / "new" / "bundle"
    with pytest.raises(KeyError), directory_aside(output) as directory:
        (directory / "a").write_text("half")
        raise KeyError
    assert list(output.parent.iterdir()) == []
    with directory_aside(output) as directory:
        (directory / "a").write_text("whole")
        assert not output.exists()
    assert [path.name for path in output.parent.iterdir()] == ["bundle"]
    assert (output / "a").read_text() == "whole"
    with pytest.raises(InputError, match="is there already"), directory_aside(output):
        pass
    assert [path.name for path in output.parent.iterdir()] == ["bundle"]


@pytest.mark.parametrize("kind", [file_aside, directory_aside])
def test_the_next_run_removes_what_a_killed_one_left(tmp_path, kind):
    output = tmp_path / "out"
    kill_one_that_writes(kind, output)
    with kind(output) as aside:
        assert aside.is_file() and not aside.read_text() or not any(aside.iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("kind", [file_aside, directory_aside])
def test_no_run_touches_what_another_one_is_writing(tmp_path, kind):
    with kind(tmp_path / "out") as aside:
        with (
            pytest.raises(InputError, match="another command is writing .*/out: wait"),
            kind(tmp_path / "out"),
        ):
            pass
        remove_leftovers(tmp_path.iterdir())
        assert aside.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_leftover_that_is_a_second_name_of_a_file_leaves_the_file_alone(tmp_path):
    """A run that is killed between a hard link and its renaming leaves one."""
    (tmp_path / "checkpoint_1_20.pt").write_text("whole")
    (tmp_path / "checkpoint_last.pt.tmp").hardlink_to(tmp_path / "checkpoint_1_20.pt")
    with file_aside(tmp_path / "checkpoint_last.pt") as aside:
        aside.write_text("another")
    assert (tmp_path / "checkpoint_1_20.pt").read_text() == "whole"
    assert (tmp_path / "checkpoint_last.pt").read_text() == "another"


def test_leftovers_of_other_names_are_removed(tmp_path):
    kill_one_that_writes(file_aside, tmp_path / "checkpoint_1_20.pt")
    remove_leftovers(tmp_path.glob("*.tmp"))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_line_and_the_old_file_stays(tmp_path):
    path = tmp_path / "model.pt"
    path.write_text("old")
    message = "model.pt cannot be written: File too large; make room"
    with files_of_at_most(1000), pytest.raises(InputError, match=message):
        with file_aside(path) as aside:
            aside.write_bytes(bytes(2000))
    assert path.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]


def test_a_second_name_appears_whole_and_survives_its_source(tmp_path):
    source, copy = tmp_path / "a.pt", tmp_path / "b.pt"
    source.write_text("new")
    copy.write_text("old")
    (tmp_path / "b.pt.tmp").write_text("left by a killed run")
    link_or_copy(source, copy)
    link_or_copy(source, copy)  # they are names of one file now
    assert os.path.samefile(source, copy)
    source.unlink()
    assert copy.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["b.pt"]


def test_the_error_of_the_system_is_found_behind_others():
    try:
        try:
            raise OSError(28, "full")
        finally:
            raise RuntimeError("torch's")
    except RuntimeError as error:
        assert os_error(error).errno == 28
    assert os_error(RuntimeError()) is None


def test_a_place_where_nothing_can_be_made_ends_in_an_error():
    with pytest.raises(OSError, match="/proc/1/x.tmp"), file_aside(Path("/proc/1/x")):
        pass
