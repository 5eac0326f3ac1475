"""The translation page of `aiayn serve` in a real browser."""

import re

import pytest
from commands import wait_until
from services import SEARCH

from aiayn_plugin.inference.translator import Translator


@pytest.fixture
def translate(browser, service):
    """Opens the page; `translate(text, submit)` returns the translations that it shows."""
    browser.visit(service.url)

    def enter(text: str, submit=lambda: browser.find("#translate").click()) -> list[str]:
        browser.driver.execute_script("document.getElementById('text').value = arguments[0]", text)
        browser.driver.execute_script("document.getElementById('status').textContent = ''")
        browser.find("#text").click()
        submit()
        wait_until(lambda: browser.find("#status").text not in ("", "translating …"))
        return [element.text for element in browser.find_all("#translations .translation")]

    return enter


def test_each_line_is_translated_as_the_translator_does(browser, service, model_dir, translate):
    from selenium.webdriver.common.keys import Keys

    lines = ["Swiss German", "3 minutes ago"]
    translator = Translator.load(model_dir, **SEARCH)
    expected = translator.translate(lines)
    assert translate("\n Swiss German \n\n3 minutes ago\n") == expected
    assert re.fullmatch(r"translated in \d+\.\d\d s", browser.find("#status").text)
    assert [element.text for element in browser.find_all("#translations .source")] == lines
    by_keyboard = translate(lines[1], lambda: browser.find("#text").send_keys(Keys.CONTROL, "\n"))
    assert by_keyboard == expected[1:]
    [[best]] = translator.translate_nbest(lines[1:])
    score = browser.find("#translations .details span").text.removeprefix("score ")
    assert float(score) == pytest.approx(best.score, abs=0.006)
    translate(" \n")
    assert browser.find("#status").text == "no text: type a sentence"
    assert not browser.complaints()


def test_the_page_describes_its_model_and_has_examples(browser, service, model_dir, translate):
    assert browser.find("h1").text == browser.driver.title == "English → German"
    assert browser.find("#source").text == "English"
    pairs = (model_dir / "data" / "pairs.txt").read_text().split()[2]
    assert browser.find("#about").text == f"{model_dir.name} · trained on {pairs} sentence pairs"
    example = browser.find("#examples button")
    assert example.text in (model_dir / "data" / "test.raw.en").read_text().splitlines()
    assert "score" not in browser.find("#form ~ ol + p").text
    [translation] = translate(None, example.click)
    assert translation and browser.find("#translations .source").text == example.text
    assert "score is the log-probability" in browser.find("#form ~ ol + p").text
    with browser.emulating(390, 844):
        assert browser.js("document.documentElement.scrollWidth <= innerWidth")
        targets = browser.find_all("button, #translations a, summary")
        assert all(target.size["height"] >= 40 for target in targets)


def test_hostile_text_stays_text(browser, translate):
    hostile = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    translate(hostile)
    assert browser.find("#translations .source").text == hostile
    assert not browser.find_all("#translations img, #translations script")


def test_an_error_is_shown_and_the_text_is_kept(browser, translate):
    assert translate("Sunday") and translate(201 * "x")
    assert browser.find("#status").text.startswith("sentence 1 has 201 characters; the limit is")
    assert browser.js("document.getElementById('status').classList.contains('error')")
    assert len(browser.js("document.getElementById('text').value")) == 201
    assert browser.find("#translate").get_attribute("aria-disabled") == "false"
    browser.set_network(on=False)
    translate("Sunday")
    assert browser.find("#status").text == "the service does not respond"


def test_a_translation_links_to_its_attention_page(browser, translate):
    translate("Swiss German")
    address = browser.driver.current_url
    browser.visit(browser.find("#translations a").get_attribute("href"))
    assert browser.find("h1").text == "Attention"
    assert "English → German" in browser.find("#about").text
    assert "Swiss German" in browser.find("#sentence").text
    assert browser.find_all("#panels svg, #panels canvas") and not browser.complaints()
    browser.find("#apart").click()
    assert "text=Swiss%20German#sentence=1&" in browser.driver.current_url
    browser.find("#about a").click()
    assert browser.driver.current_url == address and browser.find("h1").text == "English → German"
