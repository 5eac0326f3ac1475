"""`checksums.json`: what is written comes back, and each file that differs is named."""

import json

import pytest

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.manifest import (
    LIMIT,
    MANIFEST,
    fault,
    read_manifest,
    verify,
    write_manifest,
)


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "b").write_bytes(b"")
    write_manifest(tmp_path, ["b", "a"])
    return tmp_path


def test_the_manifest_holds_sizes_and_sha256(directory):
    assert json.loads((directory / MANIFEST).read_text())["files"]["a"] == {
        "bytes": 3,  # and the SHA-256 of FIPS 180-2's own example
        "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    }
    assert [*read_manifest(directory)] == ["a", "b"]
    assert read_manifest(directory / "elsewhere") == {}


@pytest.mark.parametrize(
    "content, quick, whole",
    [
        (b"abc", None, None),
        (b"abd", None, "its bytes are others"),
        (b"ab", "has 2 bytes, and had 3", "has 2 bytes, and had 3"),
        (None, "is missing", "is missing"),
    ],
)
def test_each_change_is_found(directory, content, quick, whole):
    manifest = read_manifest(directory)
    (directory / "a").unlink()
    if content is not None:
        (directory / "a").write_bytes(content)
    for message, thorough in ((quick, False), (whole, True)):
        found = fault(directory / "a", manifest["a"], thorough)
        assert found is None if message is None else message in found
        if message:
            with pytest.raises(InputError, match=message):
                verify(directory, manifest, ["unlisted", "a"], thorough)
        else:
            verify(directory, manifest, ["unlisted", "a"], thorough)


GOOD = {"bytes": 1, "sha256": "0" * 64}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        "3",
        '{"format": 1}',
        '{"format": 2, "files": {}}',
        "[" * 100_000,
        '{"format": 1, "files": []}',
        '{"format": 1, "files": {"a": 3}}',
        "\xff",
        " " * (LIMIT + 1),
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
def test_a_broken_manifest_is_one_line(tmp_path, content):
    (tmp_path / MANIFEST).write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=f"{MANIFEST}: no list of checksums") as error:
        read_manifest(tmp_path)
    assert "\n" not in str(error.value)
