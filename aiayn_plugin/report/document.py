"""A document of paragraphs, lists, tables and figures, as HTML and as Markdown.

A paragraph is a string and a list is a list of strings. Whatever they hold is shown as text.
"""

import re
from collections.abc import Collection, Sequence
from html import escape
from typing import Any, NamedTuple


class Table(NamedTuple):
    """A table. A row's first cell is its heading; a cell is text, or None for an empty one.

    A table of names and values has no head.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    emphasised: Collection[int] = ()  #: numbers of rows


class Figure(NamedTuple):
    """A figure as SVG, and what it shows in words."""

    svg: str
    caption: str
    words: str


Block = str | list[str] | Table | Figure


class Section(NamedTuple):
    """A heading and its content."""

    title: str
    blocks: Sequence[Block]


NUMBER = re.compile(r"[+\-−–±]?[\d,. ×·e%⁰¹²³⁴⁵⁶⁷⁸⁹±+\-−]*")


def to_html(title: str, sections: Sequence[Section]) -> str:
    """Return the body of a page."""
    lines = ["<main>", f"<h1>{escape(title)}</h1>"]
    for section in sections:
        blocks = map(_html, section.blocks)
        lines += ["<section>", f"<h2>{escape(section.title)}</h2>", *blocks, "</section>"]
    return "\n".join([*lines, "</main>"])


def _html(block: Block) -> str:
    if isinstance(block, str):
        return f"<p>{escape(block)}</p>"
    if isinstance(block, list):
        return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in block) + "</ul>"
    if isinstance(block, Table):
        return _html_table(block)
    svg = block.svg.replace("<svg ", f'<svg role="img" aria-label="{escape(block.words)}" ', 1)
    caption = f"<figcaption>{escape(block.caption)}</figcaption>"
    return f'<figure class="wide" tabindex="0">{caption}{svg}</figure>'


def _html_table(table: Table) -> str:
    rows, caption = _cells(table), escape(table.caption)
    columns = range(len(table.head or rows[0]))
    numeric = {n for n in columns[1:] if all(NUMBER.fullmatch(row[n]) for row in rows)}
    if not table.head:
        numeric = set()
    kinds = ['class="number"' if n in numeric else 'dir="auto"' for n in columns]
    head = "".join(
        f'<th scope="col" {kind}>{escape(name)}</th>'
        for kind, name in zip(kinds, table.head, strict=False)
    )
    body = ""
    for number, (name, *rest) in enumerate(rows):
        cells = zip(kinds[1:], rest, strict=True)
        body += '<tr class="emphasised">' if number in table.emphasised else "<tr>"
        body += f'<th scope="row" dir="auto">{escape(name)}</th>'
        body += "".join(f"<td {kind}>{escape(cell)}</td>" for kind, cell in cells) + "</tr>"
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{caption}"><table>'
        f"<caption>{caption}</caption>{head and f'<thead><tr>{head}</tr></thead>'}"
        f"<tbody>{body}</tbody></table></div>"
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
        # A backslash keeps the beginning from starting a list.
        return re.sub(r"^(\d*)([-+.)])", r"\1\\\2", escape_markdown(block).lstrip())
    if isinstance(block, list):
        return "\n".join(f"- {_markdown(item)}" for item in block)
    caption = escape_markdown(block.caption)
    if isinstance(block, Figure):
        return f"{caption}: {escape_markdown(block.words)}"
    head, *rows = (
        [escape_markdown(cell) for cell in row]
        for row in (block.head or [""] * len(block.rows[0]), *_cells(block))
    )
    for number in block.emphasised:
        rows[number][0] = f"**{rows[number][0]}**"
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join([f"{caption}:", "", *lines])


def escape_markdown(text: str) -> str:
    """Return text that Markdown shows unchanged, on one line."""
    text = re.sub(r"\s", " ", text).replace("&", "&amp;")
    return re.sub(r"([\\`*\[\]<>|#~$]|(?<!\w)_|_(?!\w))", r"\\\1", text)
