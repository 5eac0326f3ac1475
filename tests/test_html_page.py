"""HTML pages load nothing, and text never becomes markup or a script."""

import pytest
from browsers import contrast

from aiayn_plugin import plots
from aiayn_plugin.errors import InputError
from aiayn_plugin.html_page import embeddable_json, language_pair, page

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
        plots.check(tmp_path / "figure.docx")
    assert plots.inline_svg(figure).startswith("<svg")


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
