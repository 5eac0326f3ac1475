"""`checksums.json`: every changed file is reported."""

import json

import pytest

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.lines import MAX_SETTINGS_FILE
from aiayn_plugin.text.manifest import (
    MANIFEST,
    describe_change,
    read_manifest,
    verify_files,
    write_manifest,
)


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "b").write_bytes(b"")
    write_manifest(tmp_path, ["b", "a"])
    return tmp_path


def test_manifest_records_size_and_sha256(directory):
    assert json.loads((directory / MANIFEST).read_text())["files"]["a"] == {
        "bytes": 3,  # and the SHA-256 of FIPS 180-2's own example
        "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    }
    assert [*read_manifest(directory)] == ["a", "b"]
    assert read_manifest(directory / "elsewhere") == {}


@pytest.mark.parametrize(
    "content, by_size, by_contents",
    [
        (b"abc", None, None),
        (b"abd", None, "its checksum is different"),
        (b"ab", "size is 2 bytes, not 3", "size is 2 bytes, not 3"),
        (None, "is missing", "is missing"),
    ],
)
def test_every_change_is_reported(directory, content, by_size, by_contents):
    manifest = read_manifest(directory)
    (directory / "a").unlink()
    if content is not None:
        (directory / "a").write_bytes(content)
    for message, contents in ((by_size, False), (by_contents, True)):
        change = describe_change(directory / "a", manifest["a"], contents)
        assert change is None if message is None else message in change
        if message:
            with pytest.raises(InputError, match=message):
                verify_files(directory, ["unlisted", "a"], contents)
        else:
            verify_files(directory, ["unlisted", "a"], contents)


GOOD = {"bytes": 1, "sha256": "0" * 64}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "3",
        '{"format": 1}',
        '{"format": 2, "files": {}}',
        "[" * 100_000,
        '{"format": 1, "files": []}',
        '{"format": 1, "files": {"a": 3}}',
        "\xff",
        '{"format": 1, "files": {}}' + " " * MAX_SETTINGS_FILE,
        *(
            json.dumps({"format": 1, "files": {name: entry}})
            for name, entry in [
                ("../a", GOOD),
                ("/etc/passwd", GOOD),
                ("", GOOD),
                (".", GOOD),
                ("a\n", GOOD),
                ("a", GOOD | {"bytes": "1"}),
                ("a", GOOD | {"bytes": True}),
                ("a", GOOD | {"sha256": 7}),
                ("a", GOOD | {"sha256": "0" * 63}),
                ("a", GOOD | {"more": 1}),
                ("a", {"bytes": 1}),
            ]
        ),
    ],
)
def test_malformed_manifest_is_reported_in_one_line(tmp_path, content):
    (tmp_path / MANIFEST).write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=f"{MANIFEST}: not a list of checksums") as error:
        read_manifest(tmp_path)
    assert "\n" not in str(error.value)
