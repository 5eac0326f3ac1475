"""How the attention page responds to the pointer, the keyboard, touch and its URL."""

import re

import pytest
from attention_pages import SOURCE, TARGET, boxes, choose, count_lines, random_maps, visible, word
from selenium.webdriver.support.wait import WebDriverWait


def test_kind_layer_heads_and_sentence_can_be_selected(browser, show):
    maps = random_maps(SOURCE, TARGET)
    show(maps, random_maps(["b", "</s>"], ["c", "</s>"]))
    assert visible(browser, "#shown") == ["encoder self-attention, layer 1, all 8 heads"]
    assert visible(browser, ".words.from button") == visible(browser, ".words.to button") == SOURCE
    choose(browser, "kinds", "encoder_decoder")
    assert visible(browser, ".words.from button") == TARGET
    assert visible(browser, ".words.to button") == SOURCE
    assert visible(browser, ".words button:lang(de)") == TARGET
    assert visible(browser, ".columns span:lang(en)") == SOURCE
    choose(browser, "kinds", "decoder")
    assert visible(browser, ".words.from button") == ["</s>", *TARGET[:-1]]
    choose(browser, "layers", "1")
    browser.find('#heads button[data-head="2"]').click()
    assert visible(browser, "#shown") == [
        "decoder self-attention, layer 2, heads 1, 2, 4, 5, 6, 7, 8"
    ]
    browser.js("""document.querySelector('[data-head="4"]').dispatchEvent(
        new MouseEvent("click", { shiftKey: true, bubbles: true }))""")
    assert visible(browser, "#shown") == ["decoder self-attention, layer 2, head 5"]
    assert count_lines(browser) == int((maps.decoder[1, 4] >= 4.6 / 255).sum())
    browser.find_all("#heads button")[-1].click()  # none
    assert (count_lines(browser), visible(browser, ".panel")) == (0, [])
    browser.find('#sentence option[value="1"]').click()
    browser.find_all("#heads button")[-2].click()  # all
    assert visible(browser, ".words.from button") == ["</s>", "c"]


def test_pointing_at_a_word_shows_only_its_lines(browser, show):
    show(random_maps(SOURCE, TARGET))
    everything = count_lines(browser)
    browser.point_at(word(browser, "from", 3))
    row = browser.js("panels[0].tables.flatMap((table) => table[3])")
    assert count_lines(browser) == sum(weight >= 0.02 for weight in row) < everything
    assert browser.find("#readout").text.startswith(
        "To encode “was”, the encoder attends most to “"
    )
    browser.point_at(word(browser, "to", 0))
    assert "“The” is attended to most by “" in browser.find("#readout").text
    browser.point_at(browser.find("h1"))
    assert count_lines(browser) == everything and browser.find("#readout").text == ""
    word(browser, "from", 1).click()  # pins it
    browser.point_at(browser.find("h1"))
    few = count_lines(browser)
    assert few < everything
    assert visible(browser, '.words [aria-pressed="true"]') == ["ani@@"]
    browser.point_at(word(browser, "from", 2))  # without a click
    assert visible(browser, ".words.from .pointed") == ["mal"]
    browser.point_at(browser.find("h1"))
    assert visible(browser, ".words.from .pointed") == ["ani@@"]
    choose(browser, "layers", "1")
    assert browser.js("document.querySelectorAll('.words button.pointed').length") == 1
    assert visible(browser, '.words [aria-pressed="true"]') == ["ani@@"]
    browser.press("\ue00c")  # Escape
    assert count_lines(browser) > few and not visible(browser, '.words [aria-pressed="true"]')


@pytest.mark.parametrize("side, index", [("from", 3), ("to", 1)])
def test_the_words_of_the_other_side_are_tinted_and_listed_by_weight(browser, show, side, index):
    maps = random_maps(SOURCE, TARGET)
    show(maps)
    browser.point_at(word(browser, side, index))
    table = maps.encoder[0].mean(dim=0)
    weights = (table[index] if side == "from" else table[:, index]).tolist()
    other = "to" if side == "from" else "from"
    tints = browser.js(f"""[...document.querySelectorAll(".words.{other} button")]
        .map((button) => Number(button.style.getPropertyValue("--weight")))""")
    assert tints == pytest.approx(weights, abs=0.021)  # weights below 0.02 give no tint
    named = re.findall(r"“([^”]*)” \(([\d.]+)\)", browser.find("#readout").text)
    best = sorted(zip(weights, SOURCE, strict=True), reverse=True)[:3]
    assert [name for name, _ in named] == [name for _, name in best]
    assert [float(number) for _, number in named] == pytest.approx(
        [weight for weight, _ in best], abs=0.007
    )


def test_pointing_at_the_matrix_shows_the_weight(browser, show):
    maps = random_maps(SOURCE, TARGET, h=2)
    show(maps)
    word(browser, "from", 1).click()  # pins it
    canvas = browser.find(".matrix canvas")
    box = canvas.rect
    browser.point_at(canvas, box["width"] * 4.5 / 7, box["height"] * 2.5 / 7)
    numbers = [float(weight) for weight in maps.encoder[0, :, 2, 4]]
    text = browser.find("#readout").text
    assert "“mal” → “ti@@”: mean " in text
    shown = [float(part.split()[-1]) for part in text.split(": ")[1].split(", ")]
    assert shown == pytest.approx([sum(numbers) / 2, *numbers], abs=0.5 / 255 + 0.005)
    # The opacity of a cell is the square root of the mean.
    alpha = browser.js("panels[0].canvas.getContext('2d').getImageData(4, 2, 1, 1).data[3]")
    assert (alpha / 255) ** 2 == pytest.approx(sum(numbers) / 2, abs=0.01)
    browser.point_at(browser.find("h1"))
    assert visible(browser, ".words .pointed") == ["ani@@"], "the pinned word is shown again"


def test_every_control_is_reached_by_keyboard(browser, show):
    show(random_maps(SOURCE, TARGET))
    reached = []
    for _ in range(30):
        browser.press("\ue004")  # Tab
        reached.append(
            browser.js("""document.activeElement.id || document.activeElement.name ||
            document.activeElement.dataset.head || document.activeElement.dataset.side ||
            document.activeElement.tagName""")
        )
        if reached[-1] == "CANVAS":
            break
    controls = ["shown", "sentence", "apart", "joined", "kind", "layer", *map(str, range(8))]
    assert reached == [*controls, "BUTTON", "BUTTON", "from", "to", "CANVAS"]
    assert visible(browser, ".words .pointed") == ["The", "The"]
    browser.press("\ue014", "\ue015")  # right, down
    assert browser.find("#readout").text.startswith("“ani@@” → “ani@@”:")
    browser.js("document.querySelector('.words.from button').focus()")
    browser.press("\ue015", "\ue015", "\ue007")  # down, down, Enter
    assert browser.js("[pinned.side, pinned.index]") == ["from", 2]
    browser.press("\ue014", "\ue010")  # right, End
    assert browser.js("document.activeElement.title") == "</s>"
    browser.press("\ue00c")
    assert browser.js("pinned") is None


def test_a_phone_shows_both_columns_and_touch_targets(browser, phone, show):
    source = ["Donaudampfschifffahrtsgesellschaft", *SOURCE * 6]
    show(random_maps(source, source), view="")
    assert visible(browser, "#controls, #hint") == ["Tap a word to see what it attends to."]
    sides = boxes(browser, "#text bdi")
    assert len(sides) == 2 and all(bottom - top < 60 for _, top, _, bottom in sides), "two lines"
    assert browser.js("document.documentElement.scrollWidth") == 390
    buttons = boxes(browser, ".panel:first-child .words button")
    assert all(0 <= left and right <= 390 for left, _, right, _ in buttons)
    browser.find("#shown").click()
    assert browser.js("document.documentElement.scrollWidth") == 390
    for left, top, right, bottom in boxes(browser, "summary, select, label, button"):
        assert right - left >= 40 and bottom - top >= 40
    assert boxes(browser, "#heads button")[-1][2] <= 390
    word(browser, "from", 1).click()
    assert browser.find("#readout").text.endswith(" in head 1.")
    browser.js("$('panels').scrollLeft = $('panels').scrollWidth")
    WebDriverWait(browser.driver, 10).until(lambda _: "head 8." in browser.find("#readout").text)
    browser.set_screen(844, 390, mobile=True)
    WebDriverWait(browser.driver, 10).until(lambda _: "8 heads" in browser.find("#readout").text)
    browser.set_screen(390, 844, mobile=True)
    browser.js("$('panels').scrollLeft = $('panels').scrollWidth")
    browser.js("panels[7].matrix.scrollLeft = 30")
    choose(browser, "layers", "0")
    left, _, right, _ = boxes(browser, ".panel:last-child")[0]
    assert 0 <= left and right <= 390, "the head that was swiped to is kept"
    assert browser.js("panels[7].matrix.scrollLeft") == 30


def test_nothing_moves_under_the_pointer_in_a_narrow_window(browser, show):
    long = ["Donaudampfschifffahrtsgesellschaft", *SOURCE]
    show(random_maps(long, long))
    with browser.emulating(420, 900):
        before = word(browser, "from", 3).rect
        browser.point_at(word(browser, "from", 3))
        assert word(browser, "from", 3).rect["y"] == before["y"]
        assert browser.js("document.documentElement.scrollWidth <= innerWidth")
        matrix, words = browser.find(".matrix").rect, browser.find(".words.from").rect
        assert matrix["y"] > words["y"] + words["height"]
        browser.js("document.querySelector('canvas').focus()")
        browser.press(*["\ue015"] * 7)
        top = browser.js("panels[0].cell.getBoundingClientRect().top")
        assert browser.find("#readout").text.startswith("“</s>” → ")
        assert 0 <= browser.js("$('readout').getBoundingClientRect().top") < top
        assert top < browser.js("innerHeight")


def test_the_url_selects_a_view(browser, show):
    maps = random_maps(["a", "</s>"], ["b", "</s>"]), random_maps(SOURCE, TARGET)
    show(*maps, view="sentence=2&kind=encoder-decoder&layer=2&heads=3,4&word=war&apart=0")
    assert visible(browser, "#shown") == ["encoder-decoder attention, layer 2, heads 3, 4"]
    assert visible(browser, ".words .pointed") == ["war"]
    show(*maps, view="sentence=9&kind=toString&layer=x&heads=1,99&word=%3Cb%3E")
    assert visible(browser, "#shown") == ["encoder-decoder attention, layer 2, all 8 heads"]
    assert visible(browser, ".words .pointed") == []


def state(browser):
    """Return what a page shows: its words, its lines, its sentence and its controls."""
    controls = "[...document.querySelectorAll('input')].map((input) => input.checked)"
    selectors = "#shown", "#readout", "#text", ".words .pointed"
    return *(visible(browser, name) for name in selectors), browser.js(controls)


def test_the_url_stores_the_view(browser, show):
    """Also the view of a word on the right, and of a repeated word."""
    maps = [random_maps(side, side, h=4) for side in (["a", "</s>"], ["b,", "c@@", "b,", "</s>"])]
    path = show(*maps, view="")
    assert browser.driver.current_url == f"{path.as_uri()}#", "until something is selected"
    help_text = browser.find("#fragment").text
    states = {help_text: state(browser)}
    steps = (
        lambda: browser.find('#sentence option[value="1"]').click(),
        lambda: choose(browser, "kinds", "encoder"),
        lambda: choose(browser, "layers", "0"),
        lambda: browser.find("#joined").click(),
        lambda: word(browser, "from", 2).click(),
        lambda: browser.find('#heads [data-head="2"]').click(),
        lambda: browser.find("#apart").click(),
        lambda: word(browser, "to", 2).click(),
        lambda: browser.press("\ue00c"),  # Escape
        lambda: browser.find_all("#heads button")[-1].click(),  # none
    )
    for step in steps:
        step()
        browser.point_at(browser.find("h1"))
        fragment = browser.find("#fragment").text
        assert browser.driver.current_url == f"{path.as_uri()}{fragment}"
        states[fragment] = state(browser)
    assert len(states) == 1 + len(steps)
    shown = list(states.items())
    for fragment, expected in (shown[n] for n in (0, 6, 8, 9, 10)):  # each adds to the one before
        browser.driver.execute_script("location.hash = arguments[0]", fragment)
        WebDriverWait(browser.driver, 10).until(lambda _: state(browser) == expected)  # noqa: B023
        assert browser.find("#fragment").text == fragment
        browser.driver.get("about:blank")
        browser.driver.get(f"{path.as_uri()}{fragment}")
        assert state(browser) == expected
