"""Figures 3 to 5 as an HTML page: `attention.html`, `attention.css` and `attention.js`."""

import base64
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ..errors import InputError
from ..html_page import asset, page
from ..model.attention_maps import ATTENTION_KINDS
from ..text.pipeline import TextPipeline
from .maps import AttentionMaps, Sentence, Side

#: Limits of a page: subwords of a side, sentences, bytes. A larger page would be slow.
MAX_SUBWORDS = 256
MAX_SENTENCES = 200
MAX_BYTES = 100e6


def attention_page(
    maps: Sequence[AttentionMaps], pipeline: TextPipeline, name: str, about: str, home: str = ""
) -> str:
    """Return the page of some sentences of a model.

    name: the model's name, for the title; about: one line that says what the page shows;
    home: the URL of the service that the page is part of.
    """
    data = {
        "about": about,
        "home": home,
        "languages": [lang.replace("_", "-") for lang in pipeline.settings.languages],
        "kinds": ATTENTION_KINDS,
        "layers": maps[0].layers,
        "heads": maps[0].encoder.size(1),
        "sentences": [_sentence_data(of_sentence, pipeline) for of_sentence in maps],
    }
    body = asset("attention_page/attention.html")
    return page(f"Attention: {name}", body, data, "attention_page/attention")


def check_count(sentences: int) -> None:
    """Raise InputError if there are no sentences, or more than a page can show."""
    if sentences == 0:
        raise InputError("no sentence to show: the input is empty")
    if sentences > MAX_SENTENCES:
        raise InputError(f"too many sentences: a page shows at most {MAX_SENTENCES}")


def check_length(side: Side, name: str) -> None:
    """Raise InputError if a side, `name` in the message, is too long to be shown."""
    if len(side.subwords) > MAX_SUBWORDS:
        raise InputError(
            f"{name} has {len(side.subwords):,} subwords with its end symbol; a page or figure "
            f"shows at most {MAX_SUBWORDS}: shorten it"
        )


def check_size(sentences: Sequence[Sentence], layers: int, heads: int) -> None:
    """Raise InputError if a page of these sentences, layers and heads would be too large."""
    size = 0.0
    for sentence in sentences:
        m, n = len(sentence.source.subwords), len(sentence.target.subwords)
        size += 4 / 3 * layers * heads * (m * m + n * n + n * m)  # in base64, a byte per weight
    if size > MAX_BYTES:
        raise InputError(
            f"{len(sentences)} sentences would make a page of {size / 1e6:,.0f} MB, above the "
            f"limit of {MAX_BYTES / 1e6:,.0f}: give fewer, or select layers with --layers"
        )


def group_words(subwords: Sequence[str], pipeline: TextPipeline) -> list[tuple[str, int]]:
    """Return the words that subwords form, with their number of subwords.

    An end symbol at either end is a word.
    """
    begins = subwords[0] == "</s>"
    ends = len(subwords) > 1 and subwords[-1] == "</s>"
    inner = subwords[begins : len(subwords) - ends]
    return [*[("</s>", 1)] * begins, *pipeline.group_into_words(inner), *[("</s>", 1)] * ends]


def _sentence_data(maps: AttentionMaps, pipeline: TextPipeline) -> dict[str, Any]:
    sides = {"source": maps.source, "decoderInput": maps.decoder_input, "target": maps.target}
    words = {side: group_words(subwords, pipeline) for side, subwords in sides.items()}
    return {
        "subwords": sides,
        "words": words,
        "unknown": {
            "source": maps.unknown_source,
            "decoderInput": [False, *maps.unknown_target[:-1]],
            "target": maps.unknown_target,
        },
        "weights": {kind: _encode_weights(getattr(maps, kind)) for kind in ATTENTION_KINDS},
    }


def _encode_weights(weights: Tensor) -> str:
    """Return weights (layers, h, n, m) in base64, row by row, each as a byte: weight · 255.

    The weights of custom attention may be outside [0, 1]; they are clipped.
    """
    return base64.b64encode((weights.clamp(0, 1) * 255).round().byte().numpy().tobytes()).decode()
