"""Attention maps with random weights, and helpers that read a page in the browser."""

import torch

from aiayn_plugin.attention_page.maps import AttentionMaps

SOURCE = ["The", "ani@@", "mal", "was", "ti@@", "red", "</s>"]
TARGET = ["Das", "T@@", "ier", "war", "m@@", "ü@@", "de", "</s>"]
HOSTILE = [
    "<script>alert(1)</script>",
    '"quo\'tes"',
    "</style>",
    "</script>",
    "שלום",
    "مرحبا",
    "注意@@",
    "力",
    "\u200d",
    "👩‍👩‍👧",
    "e\u0301\u0323",
    "\u202egnp.exe",
    "&amp;",
    "x" * 300,
    "</s>",
]

UNKNOWN = ("力", "ü@@")


def random_maps(source, target, layers=2, h=8):
    """Return the maps of a sentence with random weights that sum to 1."""
    torch.manual_seed(len(source))
    m, n = len(source), len(target)
    weights = {
        kind: (3 * torch.randn(layers, h, *shape)).softmax(dim=-1)
        for kind, shape in {"encoder": (m, m), "decoder": (n, n), "encoder_decoder": (n, m)}.items()
    }
    return AttentionMaps(
        source,
        [target[-1], *target[:-1]],
        target,
        list(range(1, layers + 1)),
        **weights,
        unknown_source=[subword in UNKNOWN for subword in source],
        unknown_target=[subword in UNKNOWN for subword in target],
    )


def word(browser, side, index):
    return browser.find(f'.words.{side} button[data-index="{index}"]')


def choose(browser, box, value):
    browser.find(f'#{box} input[value="{value}"]').click()


def count_lines(browser):
    """Return the number of visible lines."""
    return browser.js("""[...document.querySelectorAll("svg.lines path")]
        .filter((path) => path.getClientRects().length)
        .reduce((count, path) => count + path.getAttribute("d").split("M").length - 1, 0)""")


def visible(browser, selector):
    return [element.text for element in browser.find_all(selector) if element.is_displayed()]


def boxes(browser, selector):
    """Return [left, top, right, bottom] of the visible elements that match a selector."""
    return browser.js(
        """[...document.querySelectorAll(arguments[0])].map((each) => each.getBoundingClientRect())
        .filter(({ width }) => width).map(({ left, top, right, bottom }) =>
            [left, top, right, bottom])""",
        selector,
    )
