"""HTML pages load nothing, and text never becomes markup or a script."""

import itertools
import re

import pytest
import torch
from browsers import contrast

from aiayn_plugin import plots
from aiayn_plugin.errors import InputError
from aiayn_plugin.html_page import COLOURS, asset, embeddable_json, language_pair, page

HOSTILE = "</script><script>document.title='run'</script><img src=x onerror=document.title='run'>"


def test_text_stays_text(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(page(HOSTILE, "<p>body</p>", {"text": HOSTILE}), encoding="utf-8")
    browser.open(path)
    assert browser.driver.title == HOSTILE
    assert browser.js("JSON.parse(document.getElementById('data').textContent).text") == HOSTILE
    assert browser.complaints() == []


def test_the_browser_blocks_injected_scripts_and_requests(browser, tmp_path):
    path = tmp_path / "page.html"
    body = (
        "<script>document.title='run'</script><img src=x onerror=\"document.title='run'\">"
        "<img src='http://example.com/x.png'>"
    )
    path.write_text(page("title", body), encoding="utf-8")
    browser.open(path)
    assert browser.driver.title == "title"
    assert any("Content Security Policy" in text for text in browser.complaints())


def test_embedded_json_cannot_close_its_element():
    assert embeddable_json(["</script>", "<!--"]) == '["\\u003c/script>","\\u003c!--"]'


def test_languages_have_english_names():
    assert language_pair("en", "de") == "English → German"
    assert language_pair("pt-BR", "tree") == "Brazilian Portuguese → tree"


def test_a_figure_is_saved_in_the_format_of_its_suffix(tmp_path):
    figure = plots.new_figure(2, 1)
    figure.subplots().plot([1, 2])
    for suffix, start in (("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")):
        plots.save(figure, tmp_path / f"figure.{suffix}")
        assert (tmp_path / f"figure.{suffix}").read_bytes().startswith(start)
    with pytest.raises(InputError, match="the name of a figure must end in .svg, .pdf or .png"):
        plots.save(figure, tmp_path / "figure.docx")
    assert plots.inline_svg(figure).startswith("<svg")


def perceived(kind: str, colour: str) -> torch.Tensor:
    """Return the CIE L*a*b* coordinates of a colour as seen with a kind of colour blindness.

    The matrices are those of Machado, Oliveira and Fernandes (2009) for a full deficiency.
    """
    matrices = {
        "none": torch.eye(3),
        "protan": torch.tensor(
            [
                [0.152286, 1.052583, -0.204868],
                [0.114503, 0.786281, 0.099216],
                [-0.003882, -0.048116, 1.051998],
            ]
        ),
        "deutan": torch.tensor(
            [
                [0.367322, 0.860646, -0.227968],
                [0.280085, 0.672501, 0.047413],
                [-0.011820, 0.042940, 0.968881],
            ]
        ),
        "tritan": torch.tensor(
            [
                [1.255528, -0.076749, -0.178779],
                [-0.078411, 0.930809, 0.147602],
                [0.004733, 0.691367, 0.303900],
            ]
        ),
    }
    to_xyz = torch.tensor(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ]
    )
    rgb = torch.tensor([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = torch.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = to_xyz @ (matrices[kind] @ linear).clamp(0, 1) / torch.tensor([0.95047, 1, 1.08883])
    x, y, z = torch.where(xyz > 216 / 24389, xyz ** (1 / 3), (24389 / 27 * xyz + 16) / 116)
    return torch.stack((116 * y - 16, 500 * (x - y), 200 * (y - z)))


@pytest.mark.parametrize("kind", ["none", "protan", "deutan", "tritan"])
@pytest.mark.parametrize("dark", [False, True])
def test_colours_of_one_line_style_are_distinguishable(kind, dark):
    colours = list(COLOURS)
    if dark:
        rules = re.split(r"@media \(.*dark\)|@media print", asset("html_page.css"))[1]
        for head, colour in re.findall(r"--c(\d): (#\w+)", rules):
            colours[int(head)] = colour
    for group in (colours[:4], colours[4:]):  # heads 1 to 4 are drawn solid, 5 to 8 dashed
        for one, other in itertools.combinations(group, 2):
            assert (perceived(kind, one) - perceived(kind, other)).norm() > 15


@pytest.mark.parametrize("scheme, red", [("light", 255), ("dark", 22)])
def test_both_colour_schemes_are_readable(browser, tmp_path, scheme, red):
    path = tmp_path / "page.html"
    path.write_text(page("title", "<p>body</p>"), encoding="utf-8")
    browser.scheme(scheme)
    browser.open(path)
    channels = """getComputedStyle(document.body).{}.match(/[0-9.]+/g).slice(0, 3).map(Number)"""
    background, text = (browser.js(channels.format(of)) for of in ("backgroundColor", "color"))
    assert background[0] == red
    assert contrast(background, text) > 7  # WCAG level AAA
    for name in ("--faint", "--accent"):
        value = browser.js(f"getComputedStyle(document.body).getPropertyValue('{name}').trim()")
        colour = [int(value[i : i + 2], 16) for i in (1, 3, 5)]
        assert contrast(background, colour) > 4.5  # WCAG level AA
