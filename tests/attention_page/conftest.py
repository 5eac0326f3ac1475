"""The attention page in a browser, from the disk and without a network."""

import pytest

from aiayn_plugin.attention_page.page import attention_page
from aiayn_plugin.text.pipeline import TextPipeline


@pytest.fixture(scope="session")
def pipeline(corpus):
    return TextPipeline.load(corpus)


@pytest.fixture
def show(browser, pipeline, tmp_path):
    """`show(maps, …)` opens a page and returns its path; the console must stay empty.

    view: the URL's fragment; default: all lines of the first layer in one panel.
    """

    def open_page(*maps, view="kind=encoder&layer=1&joined=0&apart=0&word="):
        path = tmp_path / "page.html"
        path.write_text(attention_page(maps, pipeline, "run", "a model"), encoding="utf-8")
        browser.scheme("light")
        browser.set_network(on=False)
        browser.driver.get("about:blank")  # a change of the fragment alone would not load the page
        browser.driver.get(f"{path.as_uri()}#{view}")
        return path

    yield open_page
    assert browser.complaints() == []


@pytest.fixture
def phone(browser):
    """Emulate a phone during the test: 390 x 844 pixels and a touch screen."""
    emulate = browser.driver.execute_cdp_cmd
    emulate("Emulation.setTouchEmulationEnabled", {"enabled": True})
    with browser.emulating(390, 844, mobile=True):
        yield
    emulate("Emulation.setTouchEmulationEnabled", {"enabled": False})
