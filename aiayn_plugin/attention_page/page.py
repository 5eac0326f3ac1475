"""Figures 3 to 5 as a page: `attention.html`, `attention.css` and `attention.js` of this folder."""

import base64
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ..errors import InputError
from ..html_page import asset, page
from ..model.attention_maps import KINDS
from ..text.pipeline import TextPipeline
from .maps import Attention, Sentence

#: Pieces of a side, sentences and bytes of a page. Beyond them a browser would be slow.
MOST_PIECES = 256
MOST_SENTENCES = 200
MOST_BYTES = 100e6
#: Weights are kept as multiples of 1/STEPS, in a byte each.
STEPS = 255


def attention_page(
    found: Sequence[Attention], pipeline: TextPipeline, name: str, about: str
) -> str:
    """Return the page of some sentences of one model.

    name: the model's, for the title; about: what the page shows, in a line.
    """
    data = {
        "about": about,
        "kinds": KINDS,
        "layers": found[0].layers,
        "heads": found[0].encoder.size(1),
        "sentences": [_sentence(of, pipeline) for of in found],
    }
    body = asset("attention_page/attention.html")
    return page(f"Attention: {name}", body, data, "attention_page/attention")


def check_number(sentences: int) -> None:
    """Raise InputError if a page cannot show so many sentences."""
    if not 1 <= sentences <= MOST_SENTENCES:
        raise InputError(
            f"{sentences:,} sentences, and a page shows at most {MOST_SENTENCES}: give fewer"
            if sentences
            else "no sentence to show: the input is empty"
        )


def check_size(sentences: Sequence[Sentence], layers: int, heads: int) -> None:
    """Raise InputError if the page of so many layers and heads would be too large."""
    size = 0.0
    for sentence in sentences:
        m, n = len(sentence.source_pieces), len(sentence.target_pieces)
        size += 4 / 3 * layers * heads * (m * m + n * n + n * m)  # base64 of a byte a weight
    if size > MOST_BYTES:
        raise InputError(
            f"{len(sentences)} sentences would make a page of {size / 1e6:,.0f} MB: "
            "give fewer, or some of the layers by --layers"
        )


def words(pieces: Sequence[str], pipeline: TextPipeline) -> list[tuple[str, int]]:
    """Return the words that pieces make up, and how many make up each; an end symbol is one."""
    begins, ends = pieces[0] == "</s>", len(pieces) > 1 and pieces[-1] == "</s>"
    inner = pieces[begins : len(pieces) - ends]
    return [*[("</s>", 1)] * begins, *pipeline.group_into_words(inner), *[("</s>", 1)] * ends]


def _sentence(found: Attention, pipeline: TextPipeline) -> dict[str, Any]:
    sides = {"source": found.source, "read": found.read, "written": found.written}
    as_words = {name: words(pieces, pipeline) for name, pieces in sides.items()}
    return {
        "text": " ".join(word for word, _ in as_words["source"][:-1]),
        "pieces": sides,
        "words": as_words,
        "unknown": {
            "source": found.unknown_source,
            "written": found.unknown_written,
            "read": [False, *found.unknown_written[:-1]],
        },
        "weights": {kind: _as_text(getattr(found, kind)) for kind in KINDS},
    }


def _as_text(weights: Tensor) -> str:
    """Return weights (layers, h, n, m) as bytes in base64, row by row."""
    values = (weights * STEPS).round().byte().contiguous()
    return base64.b64encode(values.numpy().tobytes()).decode()
