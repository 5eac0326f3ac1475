"""What the attention page shows, in a real browser."""

import math

import pytest
import torch
from attention_pages import (
    HOSTILE,
    SOURCE,
    TARGET,
    boxes,
    choose,
    count_lines,
    random_maps,
    visible,
    word,
)
from browsers import contrast
from matplotlib.image import imread

from aiayn_plugin.attention_page.figure import join_subwords
from aiayn_plugin.attention_page.page import group_words
from aiayn_plugin.model.attention_maps import ATTENTION_KINDS


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
    for kind in ATTENTION_KINDS:
        choose(browser, "kinds", kind)
        assert browser.js(unknown) == ["力"]
    browser.find("#joined").click()
    assert browser.js(unknown) == ["注意力"]


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


def test_the_rows_of_a_wide_matrix_keep_their_labels(browser, show):
    show(random_maps(SOURCE * 5, SOURCE * 5), view="apart=1&kind=encoder")
    widths = browser.js("""[...document.querySelectorAll(".panel:first-child .rows span")]
        .map((label) => [label.scrollWidth, label.clientWidth])""")
    assert len(widths) == 25 and all(text <= space for text, space in widths)
    browser.js("document.querySelector('.matrix').scrollLeft = 999")
    matrix, label = (boxes(browser, name)[0] for name in (".matrix", ".rows"))
    assert label[0] == pytest.approx(matrix[0], abs=4), "they stay while the matrix scrolls"


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


def test_the_matrix_is_aligned_with_the_words_of_its_rows(browser, show):
    show(random_maps(SOURCE, TARGET))
    canvas, words = browser.find("canvas").rect, browser.find(".words.from").rect
    assert canvas["x"] + canvas["width"] <= words["x"] < browser.find(".words.to").rect["x"]
    assert abs(canvas["y"] + 1 - words["y"]) <= 1


def test_a_printed_page_describes_its_view(browser, show):
    show(random_maps(SOURCE, TARGET))
    browser.find('#heads button[data-head="1"]').click()
    with browser.emulating(1400, 1000, media="print"):
        assert visible(browser, "#text") == ["The animal was tired → Das Tier war müde"]
        assert visible(browser, "#heads button") == ["1", "3", "4", "5", "6", "7", "8"]
        assert visible(browser, "#kinds") == visible(browser, "#help") == []


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
