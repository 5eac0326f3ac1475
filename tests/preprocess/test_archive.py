"""Members of archives: only the wanted ones, and nothing outside the directory."""

import io
import random
import tarfile
from pathlib import Path

import pytest
from corpus.archive import extract, segments
from mirror import content

from aiayn_plugin.errors import InputError


def write_tar(path, *members):
    """Write an archive. A member is (name, content) or, for a link, (name, type, target)."""
    with tarfile.open(path, "w:gz") as file:
        for name, *details in members:
            member = tarfile.TarInfo(name)
            if len(details) == 1:
                member.size = len(details[0])
                file.addfile(member, io.BytesIO(details[0]))
            else:
                member.type, member.linkname = details
                file.addfile(member)
    return path


def test_members_cannot_leave_the_directory(tmp_path):
    archive = write_tar(
        tmp_path / "a.tgz",
        ("../evil", b"x"),
        (str(tmp_path / "evil"), b"x"),
        ("link", tarfile.SYMTYPE, ".."),
        ("link/evil", b"x"),
        ("good", b"text\n"),
    )
    (tmp_path / "out").mkdir()
    extract(archive, {"good": tmp_path / "out" / "en"})
    assert content(tmp_path) == {Path("a.tgz"): archive.read_bytes(), Path("out/en"): b"text\n"}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE])
def test_wanted_member_must_be_a_file(tmp_path, kind):
    archive = write_tar(tmp_path / "a.tgz", ("good", kind, "/etc/passwd"))
    with pytest.raises(InputError, match="good is a link or the like"):
        extract(archive, {"good": tmp_path / "en"})
    assert not (tmp_path / "en").exists()


def test_unfit_archives_are_reported(tmp_path):
    archive = write_tar(tmp_path / "a.tgz", ("good", random.Random(0).randbytes(100_000)))
    with pytest.raises(InputError, match=rf"{archive}: holds no other"):
        extract(archive, {"other": tmp_path / "en"})
    for size in (0, 3, 5, 50_000):
        short = tmp_path / "b.tgz"
        short.write_bytes(archive.read_bytes()[:size])
        with pytest.raises(InputError, match="broken or cut short"):
            extract(short, {"good": tmp_path / "en"})


def test_segments_are_the_text_and_nothing_else():
    lines = [b'<refset x="<seg">\n', b'<SEG id="1"> a  &amp; b </seg>\n', b'<seg id="2"></seg>\n']
    assert list(segments(lines[1:])) == [b"a &amp; b", b""]
    with pytest.raises(InputError, match="line 2"):
        list(segments([b"<doc>\n", b'<seg id="1">a\n', b"</seg>\n"]))
