"""Figures 3 to 5 as a file: chosen heads of a layer, words on two facing columns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..html_page import COLOURS
from ..model.attention_maps import KINDS
from ..plots import new_figure
from ..text.pipeline import TextPipeline
from .maps import Attention
from .page import words

#: Of heads 1 to 4, 5 to 8, and so on.
DASHES: tuple[Any, ...] = ("-", (0, (4, 2)), (0, (1, 2)), (0, (6, 2, 1, 2)))
#: Letters of a label; a longer word is cut.
LONGEST = 28
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
    word: str | None = None  #: only the lines of this word on the left
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
    as_words = [words(side, pipeline) for side in found.sides(choice.kind)]
    sides = (
        as_words
        if choice.joined
        else [[(piece, 1) for piece in side] for side in found.sides(choice.kind)]
    )
    weights = joined(weights, *([count for _, count in side] for side in sides))
    labels = [[text for text, _ in side] for side in sides]
    rows = list(range(len(labels[0])))
    if choice.word is not None:
        rows = rows_of(choice.word, labels[0], as_words[0])
    return _draw(weights, labels, heads, rows, f"{KINDS[choice.kind]}, layer {layer}")


def rows_of(word: str, labels: Sequence[str], as_words: Sequence[tuple[str, int]]) -> list[int]:
    """Return which rows are of a word: those with it as their label, and those of its pieces.

    as_words: the words that all labels make up, and the pieces of each. Raises InputError if it is
    none of them.
    """
    owners = [text for text, count in as_words for _ in range(count)]
    if len(owners) != len(labels):  # the rows are words
        owners = list(labels)
    rows = [i for i, pair in enumerate(zip(labels, owners, strict=True)) if word in pair]
    if not rows:
        raise InputError(
            f"--word {word} is none of the words on the left: {_list(text for text, _ in as_words)}"
        )
    return rows


def joined(weights: Tensor, from_counts: Sequence[int], to_counts: Sequence[int]) -> Tensor:
    """Return weights (h, n, m) between words of so many pieces each.

    Weights into a word are summed, weights out of it averaged: [[.2, .3, .5], [.4, .4, .2],
    [.2, .4, .4]] with the counts [1, 2] on both sides is [[.2, .8], [.3, .7]].
    """
    summed = [columns.sum(dim=2) for columns in weights.split(list(to_counts), dim=2)]
    rows = torch.stack(summed, dim=2).split(list(from_counts), dim=1)
    return torch.stack([of_word.mean(dim=1) for of_word in rows], dim=1)


def _list(values: Iterable[Any]) -> str:
    return " ".join(map(str, values))


def _draw(
    weights: Tensor, labels: list[list[str]], heads: list[int], rows: Sequence[int], title: str
) -> Any:
    """Return the figure of weights (h, n, m): a line for each pair, as opaque as its weight."""
    longest = max(map(len, labels))
    figure = new_figure(5, 0.9 + 0.24 * longest)
    axes = figure.subplots()
    axes.set(xlim=(-1, 2), ylim=(longest - 0.4, -1.6))
    axes.axis("off")
    axes.set_title(title, fontsize=9)
    for x, side, of_side in ((-0.04, "right", labels[0]), (1.04, "left", labels[1])):
        for i, label in enumerate(of_side):
            text = label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"
            weak = x < 0 and i not in rows
            axes.text(
                x,
                i,
                text,
                ha=side,
                va="center",
                fontsize=9,
                color="0.6" if weak else "0",
                parse_math=False,
            )
    for place, head in enumerate(heads):
        style = {"color": COLOURS[(head - 1) % 8], "linestyle": DASHES[(head - 1) // 4 % 4]}
        _name_head(axes, head, (place + 0.5) / len(heads), style)
        apart = SPREAD * ((place + 0.5) / len(heads) - 0.5)
        for i in rows:
            for j, weight in enumerate(weights[head - 1, i].tolist()):
                if weight >= FAINTEST:
                    axes.plot(
                        [0, 1],
                        [i + apart, j + apart],
                        alpha=min(1, weight),
                        linewidth=1.8,
                        solid_capstyle="butt",
                        **style,
                    )
    return figure


def _name_head(axes: Any, head: int, x: float, style: dict[str, Any]) -> None:
    """Write a head's number, and draw a piece of its line under it."""
    axes.text(x, -1.25, str(head), ha="center", va="center", fontsize=7, color="0.3", gid="head")
    axes.plot([x - 0.03, x + 0.03], [-0.85, -0.85], linewidth=1.8, gid="head", **style)
