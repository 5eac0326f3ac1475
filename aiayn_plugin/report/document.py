"""A document of paragraphs, lists, tables and figures, as HTML and as Markdown.

A paragraph is a string and a list is a list of strings. Markup in them is shown as text.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from ..html_page import follow_scheme
from ..text.lines import same_words


class Term(NamedTuple):
    """A name with its symbol or flag, which is shown as code."""

    name: str
    code: str


class Table(NamedTuple):
    """A table. A row's first cell is its heading, which may be a Term; the others are text or None.

    A table of names and values has no head.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    emphasised: Collection[int] = ()  #: row indices

    @classmethod
    def from_records(cls, caption: str, records: Sequence[Mapping[str, Any]]) -> "Table":
        """Return a table with a row for each record; their keys are the head."""
        return cls(caption, list(records[0]), [list(record.values()) for record in records])


class LegendEntry(NamedTuple):
    """An entry of a legend: the label of a line, and its colour and dashes as in SVG."""

    label: str
    colour: str
    dashes: str = "none"
    width: float = 2


class Figure(NamedTuple):
    """A figure over updates and over time, its legend, and what it shows in words."""

    draw: Callable[[], tuple[str, str]]  #: returns both as SVG
    caption: str
    words: str
    keys: Sequence[LegendEntry]


class Figures(NamedTuple):
    """Figures side by side, with one switch between updates and time."""

    figures: Sequence[Figure]


class KeyFigures(NamedTuple):
    """Numbers shown large: (value, name, note) each."""

    numbers: Sequence[tuple[str, str, str]]


#: Characters of an example that are shown.
MAX_TEXT = 1000


class ExampleOutputs(NamedTuple):
    """Example outputs: (source, output, reference) each."""

    examples: Sequence[tuple[str, str, str]]


Block = str | list[str] | Table | Figures | KeyFigures | ExampleOutputs


class Section(NamedTuple):
    """A heading and its content. A table omits a caption that repeats the heading."""

    title: str
    blocks: Sequence[Block]


#: A number, or "low to high".
NUMBER = re.compile(r"(?:[\d,. ×·e%⁰¹²³⁴⁵⁶⁷⁸⁹+\-−–]|to )*")


def to_html(title: str, sections: Sequence[Section]) -> str:
    """Return the body of a page."""
    lines = ["<main>", f"<h1>{escape(title)}</h1>"]
    for title, blocks in sections:
        heading = [f"<h2>{escape(title)}</h2>"] if title else []
        lines += ["<section>", *heading, *(_html(block, title) for block in blocks), "</section>"]
    return "\n".join([*lines, "</main>"])


def _html(block: Block, heading: str) -> str:
    if isinstance(block, str):
        return f"<p>{escape(block)}</p>"
    if isinstance(block, list):
        return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in block) + "</ul>"
    if isinstance(block, Table):
        return _html_table(block, heading)
    if isinstance(block, KeyFigures):
        numbers = (
            f"<div><dt>{escape(name)}</dt><dd><b>{escape(value)}</b></dd><dd>{escape(note)}</dd></div>"
            for value, name, note in block.numbers
        )
        return f'<dl class="numbers">{"".join(numbers)}</dl>'
    if isinstance(block, ExampleOutputs):
        return f'<div class="examples">{"".join(map(_html_example, block.examples))}</div>'
    return _html_figures(block.figures)


def _html_example(example: tuple[str, str, str]) -> str:
    source, output, reference = (
        f'<bdi dir="auto">{escape(shorten(text))}</bdi>' for text in example
    )
    is_same = same_words(*example[1:])
    verdict = "= reference" if is_same else f"≠ reference: {reference}"
    return (
        f'<article class="{"same" if is_same else "different"}"><p>{source}</p>'
        f"<p><b>{output}</b></p><p>{verdict}</p></article>"
    )


def shorten(text: str) -> str:
    """Return the beginning of a long text."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} …"


def _html_figures(figures: Sequence[Figure]) -> str:
    """Return figures that switch without a script. A legend that they share is shown once."""
    shared = {tuple(figure.keys) for figure in figures}
    legend = _html_legend(figures[0].keys) if len(shared) == 1 else ""
    body = ""
    for figure in figures:
        own = "" if legend else _html_legend(figure.keys)
        body += f"<figure><figcaption>{escape(figure.caption)}</figcaption>{own}"
        for svg, name in zip(figure.draw(), ("updates", "time"), strict=True):
            label = f'<svg class="by-{name}" role="img" aria-label="{escape(figure.words)}" '
            body += svg.replace("<svg ", label, 1)
        body += "</figure>"
    return (
        '<div class="figures"><form aria-label="horizontal axis">'
        '<label><input type="radio" name="axis" value="updates" checked> updates</label>'
        '<label><input type="radio" name="axis" value="time"> time</label></form>'
        f'{legend}<div class="grid">{body}</div></div>'
    )


def _html_legend(keys: Sequence[LegendEntry]) -> str:
    items = "".join(
        '<li><svg viewBox="0 0 24 8" aria-hidden="true">'
        f'<path d="M0 4h24" style="stroke: {follow_scheme(colour)}; stroke-dasharray: {dashes}; '
        f'stroke-width: {width}"></path></svg>{escape(label)}</li>'
        for label, colour, dashes, width in keys
    )
    return f'<ul class="legend">{items}</ul>'


def _html_table(table: Table, heading: str) -> str:
    rows, caption = _cells(table), escape(table.caption)
    shown = "" if table.caption == heading else f"<caption>{caption}</caption>"
    columns = range(len(table.head or rows[0]))
    numeric = {
        n for n in columns[1:] if table.head and all(NUMBER.fullmatch(row[n]) for row in rows)
    }
    kinds = ['class="number"' if n in numeric else 'dir="auto"' for n in columns]
    head = "".join(
        f'<th scope="col" {kind}>{escape(name)}</th>'
        for kind, name in zip(kinds, table.head, strict=False)
    )
    body = ""
    for number, (name, *rest) in enumerate(rows):
        cells = zip(kinds[1:], rest, strict=True)
        body += '<tr class="emphasised">' if number in table.emphasised else "<tr>"
        body += f'<th scope="row" dir="auto">{_html_heading(name)}</th>'
        body += "".join(f"<td {kind}>{escape(cell)}</td>" for kind, cell in cells) + "</tr>"
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{caption}"><table>'
        f"{shown}{head and f'<thead><tr>{head}</tr></thead>'}"
        f"<tbody>{body}</tbody></table></div>"
    )


def _html_heading(cell: str | Term) -> str:
    if isinstance(cell, Term):
        return f"{escape(cell.name)} <code>{escape(cell.code)}</code>"
    return escape(cell)


def _cells(table: Table) -> list[list[Any]]:
    """Return the cells as text, except Terms."""
    return [
        ["" if cell is None else cell if isinstance(cell, Term) else str(cell) for cell in row]
        for row in table.rows
    ]


def to_markdown(title: str, sections: Sequence[Section]) -> str:
    """Return the document with each figure described in words."""
    parts = [f"# {escape_markdown(title)}"]
    for title, blocks in sections:
        parts += [f"## {escape_markdown(title)}"] if title else []
        parts += [_markdown(block, title) for block in blocks]
    return "\n\n".join(parts) + "\n"


def _markdown(block: Block, heading: str = "") -> str:
    if isinstance(block, str):
        # A backslash keeps the beginning from starting a list.
        return re.sub(r"^(\d*)([-+.)])", r"\1\\\2", escape_markdown(block).lstrip())
    if isinstance(block, list):
        return "\n".join(f"- {_markdown(item)}" for item in block)
    if isinstance(block, Figures):
        return "\n\n".join(_markdown(f"{each.caption}: {each.words}") for each in block.figures)
    if isinstance(block, KeyFigures):
        return _markdown([f"{name}: {value} ({note})" for value, name, note in block.numbers])
    if isinstance(block, ExampleOutputs):
        examples = [[*map(shorten, example)] for example in block.examples]
        block = Table(heading, ("source", "output", "reference"), examples)
    head, *rows = (
        [_markdown_cell(cell) for cell in row]
        for row in (block.head or [""] * len(block.rows[0]), *_cells(block))
    )
    for number in block.emphasised:
        rows[number][0] = f"**{rows[number][0]}**"
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    caption = [] if block.caption == heading else [f"{escape_markdown(block.caption)}:", ""]
    return "\n".join([*caption, *lines])


def _markdown_cell(cell: str | Term) -> str:
    if isinstance(cell, Term):
        return f"{escape_markdown(cell.name)} `{cell.code}`"
    return escape_markdown(cell)


def escape_markdown(text: str) -> str:
    """Return text that Markdown shows unchanged, on one line."""
    text = re.sub(r"\s", " ", text).replace("&", "&amp;")
    return re.sub(r"([\\`*\[\]<>|#~$]|(?<!\w)_|_(?!\w))", r"\\\1", text)
