"""The attention page in a real browser, from the disk and without a network."""

import math
import re

import pytest
import torch
from attention_pages import HOSTILE, SOURCE, TARGET, choose, count_lines, random_maps, visible, word
from browsers import contrast
from matplotlib.image import imread
from selenium.webdriver.support.wait import WebDriverWait

from aiayn_plugin.attention_page.figure import join_subwords
from aiayn_plugin.attention_page.page import attention_page, group_words
from aiayn_plugin.model.attention_maps import ATTENTION_KINDS
from aiayn_plugin.text.pipeline import TextPipeline


@pytest.fixture(scope="module")
def pipeline(corpus):
    return TextPipeline.load(corpus)


@pytest.fixture
def show(browser, pipeline, tmp_path):
    """`show(maps, …)` opens a page and returns its path; the console has to stay silent.

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
    screen = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    emulate("Emulation.setDeviceMetricsOverride", screen)
    emulate("Emulation.setTouchEmulationEnabled", {"enabled": True})
    yield
    emulate("Emulation.setTouchEmulationEnabled", {"enabled": False})
    emulate("Emulation.clearDeviceMetricsOverride", {})


def boxes(browser, selector):
    """Return [left, top, right, bottom] of the visible elements that match a selector."""
    return browser.js(
        """[...document.querySelectorAll(arguments[0])].map((each) => each.getBoundingClientRect())
        .filter(({ width }) => width).map(({ left, top, right, bottom }) =>
            [left, top, right, bottom])""",
        selector,
    )


def test_the_page_opens_on_the_content_word_that_attends_most_to_one_word(browser, show):
    maps = random_maps(SOURCE, TARGET, h=3)
    weights = maps.encoder_decoder[-1]
    weights[:] = 1 / 7
    weights[:, 0] = torch.tensor([1.0, 0, 0, 0, 0, 0, 0])  # "Das" is short
    weights[:, 1:3] = torch.tensor([0.02, 0.4, 0.5, 0.03, 0.05, 0, 0])  # "Tier" to "animal"
    weights[:, 4:7] = torch.tensor([0, 0, 0, 0, 0, 0, 1.0])  # "müde" to the end symbol
    show(maps, view="")
    assert visible(browser, "#shown") == ["encoder-decoder attention, layer 2, all 3 heads"]
    assert visible(browser, ".panel h2") == ["head 1", "head 2", "head 3"]
    assert visible(browser, ".side") == ["word", "attends to"] * 3
    assert visible(browser, ".words .pointed") == ["Tier"] * 3
    assert visible(browser, "#strip") == [
        "Point at a word to see what it attends to; click to pin it.\n"
        "To predict “Tier”, the decoder attends most to “animal” (0.90), then “tired” (0.05), "
        "“was” (0.03), averaged over 3 heads."
    ]
    panels = boxes(browser, ".panel")
    assert len({top for _, top, _, _ in panels}) == 1, "side by side"
    assert panels[-1][2] > 1300, "they fill the window"
    row, cells, canvas = (boxes(browser, name)[0] for name in (".cell", ".cells", "canvas"))
    assert row == pytest.approx([cells[0], row[1], cells[2], row[1] + 24]), "the row is framed"
    assert row[1] == pytest.approx(canvas[1] + 24)
    choose(browser, "kinds", "encoder")
    assert browser.js("pinned.side") == "from", "different words, a different choice"
    browser.press("\ue00c")  # Escape
    choose(browser, "kinds", "decoder")
    assert browser.js("pinned") is None


@pytest.mark.parametrize(
    "source, target, selected",
    [
        (["Hallo", "</s>"], ["</s>"], None),
        (["☃", "</s>"], ["Schnee", "</s>"], None),
        (["a", "</s>"], ["b", "</s>"], "b"),
        (["注意", "力", "</s>"], ["注意", "力", "</s>"], "注意"),
        (["Go", ".", "</s>"], ["(S", "(VP", "VB", ")VP", ".", ")S", "</s>"], "(VP"),
    ],
)
def test_a_page_of_few_words_opens_on_one_or_on_all_lines(browser, show, source, target, selected):
    maps = random_maps(source, target, layers=1, h=1)
    maps.encoder_decoder[:] = torch.tensor([0.5] + [0.5 / (len(source) - 1)] * (len(source) - 1))
    show(maps, view="")
    assert visible(browser, ".words .pointed") == ([selected] if selected else [])
    expected = len(source) if selected else len(source) * len(target)
    assert count_lines(browser) == expected
    assert not browser.find("#joined").is_displayed(), "nothing to join"
    for left, top, right, bottom in boxes(browser, "summary, select, label, button"):
        assert right - left >= 24 and bottom - top >= 24
    for kind in ATTENTION_KINDS:
        choose(browser, "kinds", kind)
        assert len(visible(browser, ".panel")) == 1


def test_a_phone_shows_both_columns_and_targets_for_fingers(browser, phone, show):
    source = ["Donaudampfschifffahrtsgesellschaft", *SOURCE * 6]
    show(random_maps(source, source), view="")
    assert visible(browser, "#controls, #hint") == ["Tap a word to see what it attends to."]
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
    wide = {"width": 844, "height": 390, "deviceScaleFactor": 2, "mobile": True}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", wide)
    WebDriverWait(browser.driver, 10).until(lambda _: "8 heads" in browser.find("#readout").text)
    browser.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {**wide, "width": 390, "height": 844}
    )
    browser.js("$('panels').scrollLeft = $('panels').scrollWidth")
    browser.js("panels[7].matrix.scrollLeft = 30")
    choose(browser, "layers", "0")
    left, _, right, _ = boxes(browser, ".panel:last-child")[0]
    assert 0 <= left and right <= 390, "the head that was swiped to is kept"
    assert browser.js("panels[7].matrix.scrollLeft") == 30


@pytest.mark.parametrize("device", ["desktop", "phone"])
@pytest.mark.parametrize("apart", [0, 1])
def test_labels_are_not_clipped(browser, show, request, device, apart):
    if device == "phone":
        request.getfixturevalue("phone")
    show(random_maps(SOURCE, TARGET), view=f"apart={apart}&kind=encoder")
    panel = boxes(browser, ".panel")[0]
    assert 0 <= panel[0] and panel[2] <= browser.js("innerWidth")
    labels = ".panel:first-child :is(.columns span, .rows span, .words button)"
    for left, top, right, bottom in boxes(browser, labels):
        assert panel[0] <= left and panel[1] <= top and right <= panel[2] and bottom <= panel[3]
    # A glyph may extend beyond its own text by a pixel or two.
    gaps = browser.js("""[...document.querySelectorAll(".panel:first-child .columns span")]
        .map((label) => {
            const text = document.createRange();
            text.selectNodeContents(label);
            const [inner, outer] = [text, label].map((each) => each.getBoundingClientRect());
            return Math.min(inner.top - outer.top, outer.bottom - inner.bottom);
        })""")
    assert len(gaps) == 5 and min(gaps) >= 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_matrix_and_the_lines_stand_out(browser, show, tmp_path, scheme):
    maps = random_maps(["a", "b", "</s>"], ["c", "</s>"], h=4)
    maps.encoder_decoder[:] = torch.tensor([0.9, 0.1, 0])
    show(maps, view="apart=0&word=")
    browser.scheme(scheme)
    pixels = imread(browser.screenshot(tmp_path / "page.png"))
    (left, top, right, bottom), panel = boxes(browser, "canvas")[0], boxes(browser, ".panel")[0]
    strong, weak, empty = (
        255 * pixels[round((top + bottom) / 2) + 5, round(left + (right - left) * x / 6), :3]
        for x in (1, 3, 5)
    )
    background = 255 * pixels[round(panel[1]) + 5, round(panel[0]) + 20, :3]
    assert contrast(strong, empty) > 3.5
    assert contrast(weak, empty) > 1.3
    assert scheme == "light" or contrast(empty, background) > 1.2, "empty cells are visible"
    colours = browser.js("""[...document.querySelectorAll("#heads path")].map((path) =>
        getComputedStyle(path).stroke.match(/\\d+/g).map(Number))""")
    assert len(colours) == 4
    assert scheme == "light" or min(contrast(colour, background) for colour in colours) > 3.5


def test_the_page_holds_the_weights_of_the_model(browser, show, pipeline):
    maps, others = random_maps(SOURCE, TARGET), random_maps(["a", "</s>"], ["b", "</s>"])
    others.encoder[0, 0] = torch.tensor([[-0.1, 1.1], [0.5, 0.5]])  # of a user's own attention
    show(others, maps)
    assert browser.js("panels[0].tables[0]") == [[0, 1], [128 / 255, 128 / 255]]
    browser.find('#sentence option[value="1"]').click()
    for kind in ATTENTION_KINDS:
        sides = [[count for _, count in group_words(side, pipeline)] for side in maps.axes(kind)]
        for layer, subwords in enumerate(getattr(maps, kind)):
            words = join_subwords(subwords, *sides)
            for joined, expected, error in (("false", subwords, 0.5), ("true", words, 1.5)):
                view = f"{{ kind: '{kind}', layer: {layer}, joined: {joined} }}"
                shown = torch.tensor(browser.js(f"change({view}), panels[0].tables"))
                torch.testing.assert_close(shown, expected, rtol=0, atol=error / 255 + 1e-6)


def test_kind_layer_heads_and_sentence_can_be_selected(browser, show):
    maps = random_maps(SOURCE, TARGET)
    show(maps, random_maps(["b", "</s>"], ["c", "</s>"]))
    assert visible(browser, "#shown") == ["encoder self-attention, layer 1, all 8 heads"]
    assert visible(browser, ".words.from button") == visible(browser, ".words.to button") == SOURCE
    assert count_lines(browser) == int(
        browser.js("""panels[0].tables.flat(2)
        .filter((weight) => weight >= 0.02).length""")
    )
    choose(browser, "kinds", "encoder_decoder")
    assert visible(browser, ".words.from button") == TARGET
    assert visible(browser, ".words.to button") == SOURCE
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
    for button in browser.find_all("#heads button")[-1:]:
        button.click()  # none
    assert (count_lines(browser), visible(browser, ".panel")) == (0, [])
    browser.find('#sentence option[value="1"]').click()
    browser.find_all("#heads button")[-2].click()  # all
    assert visible(browser, ".words.from button") == ["</s>", "c"]


def test_pointing_at_a_word_shows_only_its_lines(browser, show):
    show(random_maps(SOURCE, TARGET))
    everything = count_lines(browser)
    browser.point_at(word(browser, "from", 3))
    row = [[weight for weight in table[3]] for table in browser.js("panels[0].tables")]
    assert (
        count_lines(browser)
        == sum(weight >= 0.02 for table in row for weight in table)
        < everything
    )
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
    browser.point_at(word(browser, "from", 2))  # without a click
    assert visible(browser, ".words.from .pointed") == ["mal"]
    browser.point_at(browser.find("h1"))
    assert visible(browser, ".words.from .pointed") == ["ani@@"]
    choose(browser, "layers", "1")
    assert browser.js("document.querySelectorAll('.words button.pointed').length") == 1
    browser.press("\ue00c")  # Escape
    assert count_lines(browser) > few


def test_a_line_has_the_colour_of_its_head_and_its_weight_as_opacity(browser, show):
    maps = random_maps(SOURCE, TARGET, h=2)
    show(maps)
    drawn = browser.js("""[...document.querySelectorAll("svg.lines path")].flatMap((path) =>
        path.getAttribute("d").split("M").slice(1).map((line) => [
            ...line.match(/[\\d.]+/g).map(Number), path.getAttribute("stroke-opacity"),
            getComputedStyle(path).stroke]))""")
    colours = browser.js("""[...document.querySelectorAll("[data-head] path")]
        .map((path) => getComputedStyle(path).stroke)""")
    assert len(set(colours)) == 2
    expected = []
    for head, table in enumerate((255 * maps.encoder[0]).round() / 255):
        offset = (-3, 3)[head]  # pixels, so that the lines of two heads do not overlap
        expected += [
            [
                0,
                24 * i + 12 + offset,
                200,
                24 * j + 12 + offset,
                math.ceil(32 * float(table[i, j]) - 1e-6) / 32,
                colours[head],
            ]
            for i in range(len(SOURCE))
            for j in range(len(SOURCE))
            if table[i, j] >= 0.02
        ]
    assert sorted([*map(float, line[:5]), line[5]] for line in drawn) == sorted(expected)


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
    heads = [str(head) for head in range(8)]
    assert reached == [
        "shown",
        "sentence",
        "apart",
        "joined",
        "kind",
        "layer",
        *heads,
        "BUTTON",
        "BUTTON",
        "from",
        "to",
        "CANVAS",
    ]
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


def test_hostile_words_stay_text(browser, show):
    show(random_maps(HOSTILE, HOSTILE, h=2))
    texts = browser.js("""[...document.querySelectorAll(".words.from button")]
        .map((button) => button.textContent)""")
    assert texts == [text if text != "\u200d" else "U+200D" for text in HOSTILE]
    assert word(browser, "from", 13).rect["width"] <= 260  # truncated, with the word as its title
    assert word(browser, "from", 13).get_attribute("title") == "x" * 300
    browser.point_at(word(browser, "from", 0))
    assert "“<script>alert(1)</script>”" in browser.find("#readout").text
    assert browser.driver.title == "Attention: run"
    unknown = """[...document.querySelectorAll(".words.from .unknown")]
        .map((button) => button.textContent)"""
    assert browser.js(unknown) == ["力"]
    browser.find("#joined").click()
    assert browser.js(unknown) == ["注意力"]


def test_words_of_many_subwords_keep_their_strongest_line(browser, show):
    """Rounded weights to the subwords of a word may sum to more than 1."""
    subwords = [*["x@@"] * 150, "x", "</s>"]
    maps = random_maps(subwords, subwords, layers=1, h=1)
    maps.encoder[:] = torch.tensor([1.6 / 255] * 151 + [1 - 151 * 1.6 / 255])
    show(maps)
    browser.find("#joined").click()
    assert (
        browser.js("panels[0].tables[0].map((row) => row.map((w) => w.toFixed(2)))")
        == [["1.00", "0.05"]] * 2
    )
    assert count_lines(browser) == 4


def test_nothing_moves_under_the_pointer_in_a_narrow_window(browser, show):
    long = ["Donaudampfschifffahrtsgesellschaft", *SOURCE]
    show(random_maps(long, long))
    browser.driver.set_window_size(420, 900)
    try:
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
    finally:
        browser.driver.set_window_size(1400, 1000)


def test_the_url_selects_a_view(browser, show):
    path = show(random_maps(["a", "</s>"], ["b", "</s>"]), random_maps(SOURCE, TARGET))
    url = f"{path.as_uri()}#sentence=2&kind=encoder-decoder&layer=2&heads=3,4&word=war&apart=0"
    browser.driver.get("about:blank")
    browser.driver.get(url)
    assert visible(browser, "#shown") == ["encoder-decoder attention, layer 2, heads 3, 4"]
    assert visible(browser, ".words .pointed") == ["war"]
    assert browser.find("#sentence").get_attribute("value") == "1"
    browser.driver.get("about:blank")
    browser.driver.get(f"{path.as_uri()}#sentence=9&kind=toString&layer=x&heads=1,99&word=%3Cb%3E")
    assert visible(browser, "#shown") == ["encoder-decoder attention, layer 2, all 8 heads"]
    assert visible(browser, ".words .pointed") == []


def state(browser):
    """Return what a page shows: its words, its lines, its sentence and its controls."""
    controls = "[...document.querySelectorAll('input')].map((input) => input.checked)"
    selectors = "#shown", "#readout", "#text", ".words .pointed"
    return *(visible(browser, name) for name in selectors), browser.js(controls)


def test_the_address_holds_the_view(browser, show):
    """Also of a word on the right, and of one that is repeated."""
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


def test_the_matrix_is_aligned_with_the_words_of_its_rows(browser, show):
    show(random_maps(SOURCE, TARGET))
    choose(browser, "kinds", "encoder_decoder")
    canvas, words = browser.find("canvas"), browser.find(".words.from").rect
    assert canvas.rect["x"] + canvas.rect["width"] <= words["x"]
    assert browser.find(".words.to").rect["x"] > words["x"]
    assert abs(canvas.rect["y"] + 1 - words["y"]) <= 1
    word(browser, "from", 2).click()
    browser.point_at(canvas, 30, 30)
    browser.point_at(browser.find("h1"))
    assert visible(browser, ".words .pointed") == [TARGET[2]]  # the pinned word is shown again
    assert browser.find("#readout").text.startswith(f"To predict “{TARGET[2]}”, the decoder")


def test_a_printed_page_describes_its_view(browser, show):
    show(random_maps(SOURCE, TARGET))
    browser.find('#heads button[data-head="1"]').click()
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert visible(browser, "#text") == ["The animal was tired → Das Tier war müde"]
        assert visible(browser, "#heads button") == ["1", "3", "4", "5", "6", "7", "8"]
        assert visible(browser, "#kinds") == visible(browser, "#help") == []
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_a_long_sentence_makes_a_small_page_with_few_elements(browser, show):
    subwords = [f"w{i}@@" if i % 3 else f"w{i}" for i in range(99)] + ["</s>"]
    path = show(random_maps(subwords, subwords, layers=6))
    assert path.stat().st_size <= 4e6
    assert 6 * 8 * 3 * 100 * 100 < path.stat().st_size
    browser.point_at(word(browser, "from", 9))
    # What has to be redrawn when the pointer moves is bounded: heads times opacities.
    assert browser.js("panels[0].all.childElementCount") <= 8 * 33
    assert browser.js("panels[0].one.childElementCount") <= 8 * 33
    assert browser.js("document.documentElement.scrollWidth <= innerWidth")
