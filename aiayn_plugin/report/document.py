"""A document of paragraphs, lists, tables and figures, as HTML and as Markdown.

A paragraph is a string and a list is a list of strings. Whatever they hold is shown as text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any


@dataclass(frozen=True)
class Table:
    """A table. A row's first cell is its heading; a cell is text, or None for an empty one.

    A table of names and values has no head.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    #: Numbers of the rows to emphasise.
    emphasised: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Figure:
    """A figure as SVG, and what it shows in words."""

    svg: str
    caption: str
    words: str


Block = str | list[str] | Table | Figure


@dataclass(frozen=True)
class Section:
    """A heading and its content."""

    title: str
    blocks: Sequence[Block]


NUMBER = re.compile(r"[+\-−–±]?[\d,. ×·e%⁰¹²³⁴⁵⁶⁷⁸⁹±+\-−]*")


def to_html(title: str, sections: Sequence[Section]) -> str:
    """Return the body of a page."""
    parts = [f"<h1>{escape(title)}</h1>"]
    for section in sections:
        blocks = "\n".join(map(_html, section.blocks))
        parts.append(f"<section>\n<h2>{escape(section.title)}</h2>\n{blocks}\n</section>")
    return "<main>\n" + "\n".join(parts) + "\n</main>"


def _html(block: Block) -> str:
    if isinstance(block, str):
        return f"<p>{escape(block)}</p>"
    if isinstance(block, list):
        return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in block) + "</ul>"
    if isinstance(block, Table):
        return _table(block)
    svg = block.svg.replace("<svg ", f'<svg role="img" aria-label="{escape(block.words)}" ', 1)
    caption = f"<figcaption>{escape(block.caption)}</figcaption>"
    return f'<figure class="wide" tabindex="0">{caption}{svg}</figure>'


def _table(table: Table) -> str:
    rows = _cells(table)
    columns = range(len(table.head))
    numeric = {n for n in columns if n and all(NUMBER.fullmatch(row[n]) for row in rows)}
    head = "".join(
        f'<th scope="col"{" class=number" if n in numeric else ""}>{escape(name)}</th>'
        for n, name in enumerate(table.head)
    )
    body = []
    for number, (name, *rest) in enumerate(rows):
        cells = [
            f'<td class="number">{escape(cell)}</td>'
            if n in numeric
            else f'<td dir="auto">{escape(cell)}</td>'
            for n, cell in enumerate(rest, start=1)
        ]
        emphasis = ' class="emphasised"' if number in table.emphasised else ""
        heading = f'<th scope="row" dir="auto">{escape(name)}</th>'
        body.append(f"<tr{emphasis}>{heading}{''.join(cells)}</tr>")
    caption = escape(table.caption)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{caption}"><table>'
        f"<caption>{caption}</caption>{head and f'<thead><tr>{head}</tr></thead>'}"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _cells(table: Table) -> list[list[str]]:
    return [["" if cell is None else str(cell) for cell in row] for row in table.rows]


def to_markdown(title: str, sections: Sequence[Section]) -> str:
    """Return the document with each figure described in words."""
    parts = [f"# {escape_markdown(title)}"]
    for section in sections:
        parts += [f"## {escape_markdown(section.title)}", *map(_markdown, section.blocks)]
    return "\n\n".join(parts) + "\n"


def _markdown(block: Block) -> str:
    if isinstance(block, str):
        return _paragraph(block)
    if isinstance(block, list):
        return "\n".join(f"- {_paragraph(item)}" for item in block)
    if isinstance(block, Figure):
        return f"{escape_markdown(block.caption)}: {escape_markdown(block.words)}"
    rows = [list(map(escape_markdown, row)) for row in _cells(block)]
    for number in block.emphasised:
        rows[number][0] = f"**{rows[number][0]}**"
    head = list(map(escape_markdown, block.head)) or [""] * len(rows[0])
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join([f"{escape_markdown(block.caption)}:", "", *lines])


def escape_markdown(text: str) -> str:
    """Return text that Markdown shows unchanged, on one line."""
    text = re.sub(r"\s", " ", text).replace("&", "&amp;")
    return re.sub(r"([\\`*\[\]<>|#~$]|(?<!\w)_|_(?!\w))", r"\\\1", text)


def _paragraph(text: str) -> str:
    """Return escaped text whose beginning does not start a list."""
    return re.sub(r"^(\d*)([-+.)])", r"\1\\\2", escape_markdown(text).lstrip())
