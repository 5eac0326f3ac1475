"""The page of `aiayn serve`, as a person uses it."""

import time

import pytest
from commands import after
from services import serving

from aiayn_plugin.inference.translator import Translator


@pytest.fixture(scope="module")
def service(model_dir, tmp_path_factory):
    with serving(model_dir, tmp_path_factory.mktemp("serve"), "--max-length", "200") as running:
        yield running


@pytest.fixture
def ask(browser, service):
    """Opens the page; `ask(text, how)` types and sends, and returns what is shown."""
    browser.visit(service.address)

    def send(text: str, how=lambda: browser.find("#translate").click()) -> list[str]:
        browser.driver.execute_script("document.getElementById('text').value = arguments[0]", text)
        browser.driver.execute_script("document.getElementById('said').textContent = ''")
        browser.find("#text").click()
        how()
        end = after(30)
        while browser.find("#said").text in ("", "translating …") and not end():
            time.sleep(0.1)
        return [element.text for element in browser.find_all("#answers .translation")]

    return send


def test_a_sentence_a_line_is_translated_as_the_translator_does(browser, service, model_dir, ask):
    lines = ["Swiss German", "3 minutes ago"]
    assert ask("\n Swiss German \n\n3 minutes ago\n") == Translator.load(model_dir).translate(lines)
    assert browser.find("#said").text.endswith(" s")
    assert [given.text.split(" · ")[0] for given in browser.find_all("#answers .given")] == lines
    assert "recipe" in browser.find("h1").text and browser.find("#source").text == "en"
    assert not browser.complaints()


def test_ctrl_and_enter_translate(browser, ask):
    from selenium.webdriver.common.keys import Keys

    press = lambda: browser.find("#text").send_keys(Keys.CONTROL, Keys.ENTER)  # noqa: E731
    assert len(ask("Sunday", press)) == 1


def test_hostile_text_stays_text(browser, ask):
    wicked = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    ask(wicked)
    assert browser.find("#answers .given").text.startswith(wicked)
    assert not browser.find_all("#answers img") and not browser.find_all("#answers script")


def test_what_is_refused_says_why_and_keeps_what_was_typed(browser, ask):
    assert ask("Sunday") and ask(201 * "x")
    assert browser.find("#said").text.startswith("sentence 1 has 201 characters, and may have 200")
    assert browser.js("document.getElementById('said').classList.contains('error')")
    assert len(browser.js("document.getElementById('text').value")) == 201
    assert not browser.js("document.getElementById('translate').disabled")


def test_the_attention_of_an_answer_is_a_link_away(browser, ask):
    ask("Swiss German")
    address = browser.find("#answers a").get_attribute("href")
    browser.visit(address)
    assert browser.find("h1").text == "Attention"
    assert "Swiss German" in browser.find("#sentence").text
    assert browser.find_all("#panels svg, #panels canvas") and not browser.complaints()


def test_a_service_that_has_gone_is_told(browser, model_dir, tmp_path):
    with serving(model_dir, tmp_path) as short:
        browser.visit(short.address)
        assert short.stop() == 0
        browser.find("#text").send_keys("Sunday")
        browser.find("#translate").click()
        end = after(30)
        while browser.find("#said").text != "the service does not answer" and not end():
            time.sleep(0.1)
        assert not end()
