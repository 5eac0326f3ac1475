"""Figures 3 to 5 as a file: selected heads of a layer, as lines between two columns of words."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..html_page import COLOURS
from ..model.attention_maps import ATTENTION_KINDS
from ..plots import new_figure
from ..text.pipeline import TextPipeline
from .maps import AttentionMaps
from .page import group_words

#: Line styles of heads 1 to 4, 5 to 8, and so on: solid, or the lengths of dashes and gaps.
LENGTHS = ((4, 2), (1, 2), (6, 2, 1, 2), (9, 3), (1, 4), (6, 2, 1, 2, 1, 2), (2, 4))
DASHES: tuple[Any, ...] = ("-", *((0, lengths) for lengths in LENGTHS))
#: Maximum characters of a label; longer words are truncated.
MAX_LABEL = 28
#: The height, in rows, of the bundle of lines between two words, one line per head.
SPREAD = 0.5
#: Lines of smaller weights would be invisible.
MIN_WEIGHT = 0.02


def attention_figure(
    maps: AttentionMaps,
    pipeline: TextPipeline,
    kind: str = "encoder",
    layer: int | None = None,
    heads: Sequence[int] | None = None,
    word: str | None = None,
    join: bool = False,
) -> Any:
    """Return a matplotlib figure of a layer; layers and heads are counted from 1.

    kind: one of ATTENTION_KINDS. layer: None for the second to last; the paper shows layer 5 of 6.
    heads: None for all. word: show only the lines of this word on the left. join: join subwords
    into words. Raises InputError for an unknown layer, head or word, and without matplotlib.
    """
    if layer is None:
        layer = maps.layers[max(0, len(maps.layers) - 2)]
    if layer not in maps.layers:
        raise InputError(f"--layer {layer} is not one of the layers {_join(maps.layers)}")
    weights = getattr(maps, kind)[maps.layers.index(layer)]
    all_heads = range(1, len(weights) + 1)
    selected = list(all_heads) if heads is None else sorted(set(heads))
    if unknown := [head for head in selected if head not in all_heads]:
        raise InputError(f"--heads {unknown[0]} is not one of the heads {_join(all_heads)}")
    labels = list(maps.axes(kind))
    words = [group_words(side, pipeline) for side in labels]
    if join:
        weights = join_subwords(weights, *([count for _, count in side] for side in words))
        labels = [[text for text, _ in side] for side in words]
    rows = range(len(labels[0])) if word is None else find_rows(word, labels[0], words[0])
    unit = "head" if len(selected) == 1 else "heads"
    return _draw(weights, labels, selected, rows, f"{ATTENTION_KINDS[kind]}, layer {layer}, {unit}")


def find_rows(word: str, labels: Sequence[str], words: Sequence[tuple[str, int]]) -> list[int]:
    """Return the rows of a word: those that it labels, and those of its subwords.

    words: the words that the labels form, with their number of subwords. Raises InputError for an
    unknown word.
    """
    owners = [text for text, count in words for _ in range(count)]
    if len(owners) != len(labels):  # the labels are words
        owners = list(labels)
    rows = [i for i, pair in enumerate(zip(labels, owners, strict=True)) if word in pair]
    if not rows:
        raise InputError(
            f"--word {word} is not one of the words on the left: {_join(text for text, _ in words)}"
        )
    return rows


def join_subwords(weights: Tensor, from_counts: Sequence[int], to_counts: Sequence[int]) -> Tensor:
    """Return the weights (h, n, m) between words, given their numbers of subwords.

    Weights to a word are summed, weights from it averaged: with the counts [1, 2] on both sides,
    [[.2, .3, .5], [.4, .4, .2], [.2, .4, .4]] becomes [[.2, .8], [.3, .7]].
    """
    summed = [columns.sum(dim=2) for columns in weights.split(list(to_counts), dim=2)]
    rows = torch.stack(summed, dim=2).split(list(from_counts), dim=1)
    return torch.stack([group.mean(dim=1) for group in rows], dim=1)


def _join(values: Iterable[Any]) -> str:
    return " ".join(map(str, values))


def _draw(
    weights: Tensor, labels: list[list[str]], heads: list[int], rows: Sequence[int], title: str
) -> Any:
    """Draw weights (h, n, m): a line per pair and head, with the weight as its opacity."""
    height = max(map(len, labels))
    figure = new_figure(max(5, 0.625 * len(heads)), 0.9 + 0.24 * height)
    half = min(0.05, 0.4 / len(heads))  # of a sample line: long enough for a dash and a gap
    axes = figure.subplots()
    axes.set(xlim=(-1, 2), ylim=(height - 0.4, -1.6))
    axes.axis("off")
    axes.set_title(title, fontsize=9)
    for i, label in enumerate(labels[0]):
        _draw_label(axes, -0.04, i, label, "right", color="0" if i in rows else "0.6")
    for i, label in enumerate(labels[1]):
        _draw_label(axes, 1.04, i, label, "left", color="0")
    for place, head in enumerate(heads):
        x = (place + 0.5) / len(heads)
        dashes = DASHES[(head - 1) // 4 % len(DASHES)]
        style = {"color": COLOURS[(head - 1) % 8], "linestyle": dashes}
        axes.text(x, -1.25, str(head), ha="center", va="center", fontsize=7, color="0.3")
        axes.plot([x - half, x + half], [-0.85, -0.85], linewidth=1.8, gid="legend", **style)
        offset = SPREAD * (x - 0.5)
        style |= {"linewidth": 1.8, "solid_capstyle": "butt"}
        for i in rows:
            for j, weight in enumerate(weights[head - 1, i].tolist()):
                if weight >= MIN_WEIGHT:
                    axes.plot([0, 1], [i + offset, j + offset], alpha=min(1, weight), **style)
    return figure


def _draw_label(axes: Any, x: float, y: float, label: str, align: str, color: str) -> None:
    text = label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 1]}…"
    axes.text(x, y, text, ha=align, va="center", fontsize=9, color=color, parse_math=False)
