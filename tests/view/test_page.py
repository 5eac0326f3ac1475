"""Pages: nothing is fetched, and no text becomes markup or a script."""

import pytest

from aiayn_plugin.errors import InputError
from aiayn_plugin.view import plots
from aiayn_plugin.view.page import as_json, page

HOSTILE = "</script><script>document.title='run'</script><img src=x onerror=document.title='run'>"


def test_text_stays_text(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(page(HOSTILE, "<p>body</p>", {"text": HOSTILE}), encoding="utf-8")
    browser.open(path)
    assert browser.driver.title == HOSTILE
    assert browser.js("JSON.parse(document.getElementById('data').textContent).text") == HOSTILE
    assert browser.complaints() == []


def test_the_browser_refuses_what_the_page_is_made_to_run_or_fetch(browser, tmp_path):
    path = tmp_path / "page.html"
    body = ("<script>document.title='run'</script><img src=x onerror=\"document.title='run'\">"
            "<img src='http://example.com/x.png'>")
    path.write_text(page("title", body), encoding="utf-8")
    browser.open(path)
    assert browser.driver.title == "title"
    assert any("Content Security Policy" in text for text in browser.complaints())


def test_json_cannot_end_its_element():
    assert as_json(["</script>", "<!--"]) == '["\\u003c/script>","\\u003c!--"]'


def test_figures_are_files_of_known_kinds(tmp_path):
    figure = plots.new_figure(2, 1)
    figure.subplots().plot([1, 2])
    for kind, begin in (("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")):
        plots.save(figure, tmp_path / f"figure.{kind}")
        assert (tmp_path / f"figure.{kind}").read_bytes().startswith(begin)
    with pytest.raises(InputError, match="a figure is a file .svg, .pdf or .png"):
        plots.save(figure, tmp_path / "figure.docx")
    assert plots.inline_svg(figure).startswith("<svg")
