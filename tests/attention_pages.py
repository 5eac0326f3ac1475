"""Attention for a page in the tests, with made-up weights, and what can be read from the page."""

import torch

from aiayn_plugin.attention_page.maps import Attention

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


def made_up(source, target, layers=2, h=8):
    """Return random weights of a sentence, as a softmax would give them."""
    torch.manual_seed(len(source))
    read = [target[-1], *target[:-1]]
    m, n = len(source), len(target)
    weights = {
        kind: (3 * torch.randn(layers, h, *shape)).softmax(dim=-1)
        for kind, shape in {"encoder": (m, m), "decoder": (n, n), "encoder_decoder": (n, m)}.items()
    }
    unknown = [[piece in UNKNOWN for piece in side] for side in (source, target)]
    return Attention(
        source,
        read,
        target,
        list(range(1, layers + 1)),
        **weights,
        unknown_source=unknown[0],
        unknown_written=unknown[1],
    )


def word(browser, side, index):
    return browser.find(f'.words.{side} button[data-index="{index}"]')


def choose(browser, box, value):
    browser.find(f'#{box} input[value="{value}"]').click()


def lines(browser):
    """Return how many lines there are to be seen."""
    return browser.js("""[...document.querySelectorAll("svg.lines path")]
        .filter((path) => path.getClientRects().length)
        .reduce((count, path) => count + path.getAttribute("d").split("M").length - 1, 0)""")


def visible(browser, selector):
    return [found.text for found in browser.find_all(selector) if found.is_displayed()]
