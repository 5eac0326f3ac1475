"""Figures 3 to 5 as a file: chosen heads of a layer, words on two facing columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..model.weights import KINDS
from ..text.pipeline import TextPipeline
from .attention import Attention
from .attention_page import words
from .page import COLOURS
from .plots import new_figure

DASHES = ("-", (0, (4, 2)), (0, (1, 2)), (0, (6, 2, 1, 2)))
#: Rows: the lines of the heads between the same words lie so far apart.
SPREAD = 0.5
#: Lines for smaller weights could not be seen.
FAINTEST = 0.02


@dataclass(frozen=True)
class Choice:
    """What of a sentence a figure shows; layers and heads are counted from 1."""

    kind: str = "encoder"  #: one of KINDS
    layer: int | None = None  #: default: the last layer but one; the paper shows layer 5 of 6
    heads: Sequence[int] | None = None  #: default: all
    word: str | None = None  #: only the lines of this word
    joined: bool = False  #: join subwords into words


def attention_figure(found: Attention, pipeline: TextPipeline, choice: Choice) -> Any:
    """Return a figure of matplotlib.

    Raises InputError for a layer, a head or a word that is not there, and without matplotlib.
    """
    layer = found.layers[max(0, len(found.layers) - 2)] if choice.layer is None else choice.layer
    if layer not in found.layers:
        raise InputError(f"--layer {layer} is none of the layers {_list(found.layers)}")
    weights = getattr(found, choice.kind)[found.layers.index(layer)]
    every = range(1, len(weights) + 1)
    heads = list(every) if choice.heads is None else sorted(set(choice.heads))
    if wrong := [head for head in heads if head not in every]:
        raise InputError(f"--heads {wrong[0]} is none of the heads {_list(every)}")
    sides = [words(side, pipeline) if choice.joined else [(piece, 1) for piece in side]
             for side in found.sides(choice.kind)]  # fmt: skip
    weights = joined(weights, *([count for _, count in side] for side in sides))
    labels = [[text for text, _ in side] for side in sides]
    rows = _rows(labels[0], choice.word)
    title = f"{KINDS[choice.kind]}, layer {layer}, head{'s' * (len(heads) > 1)} {_list(heads)}"
    return _draw(weights, labels, heads, rows, title)


def joined(weights: Tensor, from_counts: Sequence[int], to_counts: Sequence[int]) -> Tensor:
    """Return weights (h, n, m) between words of so many pieces each.

    Weights into a word are summed, weights out of it averaged: [[.2, .3, .5], [.4, .4, .2],
    [.2, .4, .4]] with the counts [1, 2] on both sides is [[.2, .8], [.3, .7]].
    """
    summed = [columns.sum(dim=2) for columns in weights.split(list(to_counts), dim=2)]
    rows = torch.stack(summed, dim=2).split(list(from_counts), dim=1)
    return torch.stack([of_word.mean(dim=1) for of_word in rows], dim=1)


def _rows(labels: list[str], word: str | None) -> list[int]:
    if word is None:
        return list(range(len(labels)))
    rows = [i for i, label in enumerate(labels) if word in (label, label.removesuffix("@@"))]
    if not rows:
        raise InputError(f"--word {word} is none of the words {_list(labels)}")
    return rows


def _list(values: Any) -> str:
    return " ".join(map(str, values))


def _draw(
    weights: Tensor, labels: list[list[str]], heads: list[int], rows: list[int], title: str
) -> Any:
    """Return the figure of weights (h, n, m): a line for each pair, as opaque as its weight."""
    longest = max(map(len, labels))
    figure = new_figure(5, 0.8 + 0.24 * longest)
    axes = figure.subplots()
    axes.set(xlim=(-1, 2), ylim=(longest - 0.4, -0.6))
    axes.axis("off")
    axes.set_title(title, fontsize=9)
    for x, side, words_of_side in ((0.0, "right", labels[0]), (1.0, "left", labels[1])):
        for i, label in enumerate(words_of_side):
            weak = x == 0.0 and i not in rows
            axes.text(x + (0.04 if x else -0.04), i, label, ha=side, va="center", fontsize=9,
                      color="0.6" if weak else "0", parse_math=False)
    for place, head in enumerate(heads):
        colour, dash = COLOURS[(head - 1) % 8], DASHES[(head - 1) // 8 % 4]
        apart = SPREAD * ((place + 0.5) / len(heads) - 0.5)
        for i in rows:
            for j, weight in enumerate(weights[head - 1, i].tolist()):
                if weight >= FAINTEST:
                    axes.plot([0, 1], [i + apart, j + apart], color=colour, linestyle=dash,
                              alpha=min(1, weight), linewidth=1.8, solid_capstyle="butt")
    return figure
