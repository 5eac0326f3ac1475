"""The pictures of the documentation are small and complete."""

import sys

import pytest
from commands import PLUGIN
from PIL import Image

PICTURES = PLUGIN.parent / "examples" / "pictures"


@pytest.mark.parametrize("path", sorted(PICTURES.glob("*.png")), ids=lambda path: path.name)
def test_nothing_is_cut_off(path):
    assert path.stat().st_size < 300_000
    picture = Image.open(path).convert("RGB")
    right, bottom = picture.width, picture.height
    edges = ((0, 0, right, 1), (0, bottom - 1, right, bottom), (0, 0, 1, bottom))
    for edge in (*edges, (right - 1, 0, right, bottom)):
        assert len(picture.crop(edge).getcolors()) == 1, f"something crosses the edge {edge}"


def test_a_picture_ends_with_its_element(browser, repo, succeed, tmp_path):
    """Even below the window; `browser` skips the test without Chromium."""
    page, path = tmp_path / "page.html", tmp_path / "picture.png"
    blocks = ("blue", "green"), ("red", "red")
    page.write_text(
        "".join(f"<div id={n} style='height:1500px;background:{c}'></div>" for n, c in blocks)
    )
    program = repo / "examples" / "screenshot.py"
    succeed(sys.executable, program, page.as_uri(), path, "500", "#blue")
    picture = Image.open(path).convert("RGB")
    assert picture.width == 500 and 1500 <= picture.height <= 1530
    assert picture.getpixel((250, 1490)) == (0, 128, 0)
