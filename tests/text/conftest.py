"""A data directory with text settings and three merges."""

from pathlib import Path

import pytest

from aiayn_plugin.text.manifest import hash_file
from aiayn_plugin.text.settings import TextSettings


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A directory with text.json and codes.bpe: `hello` is `he@@ l@@ lo`, `hel` is `hel`."""
    (tmp_path / "codes.bpe").write_text("#version: 0.2\nh e\nhe l</w>\nl o</w>\n")
    digest = hash_file(tmp_path / "codes.bpe")
    TextSettings("en", "de", 3, codes_sha256=digest).save(tmp_path / "text.json")
    return tmp_path
