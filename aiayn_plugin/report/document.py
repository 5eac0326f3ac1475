"""A document of text, tables and figures, as HTML and as Markdown; what it holds stays text."""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list."""

    items: Sequence[str]


@dataclass(frozen=True)
class Code:
    """Lines to be typed."""

    text: str


@dataclass(frozen=True)
class Table:
    """A table; a row's first cell is its name. A cell is text, or None for an empty one.

    A table of names and values needs no head: ("", "").
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    #: The rows, by number, that stand out.
    ours: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Figure:
    """A figure as SVG, and what it shows in words."""

    svg: str
    caption: str
    words: str


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: Sequence[Text | Items | Code | Table | Figure]


NUMBER = re.compile(r"[+\-−–±]?[\d,. ×·e%⁰¹²³⁴⁵⁶⁷⁸⁹±+\-−]*")


def to_html(title: str, sections: Sequence[Section]) -> str:
    """Return the body of a page."""
    parts = [f"<h1>{html.escape(title)}</h1>"]
    for section in sections:
        blocks = "\n".join(map(_html, section.blocks))
        parts.append(f"<section>\n<h2>{html.escape(section.title)}</h2>\n{blocks}\n</section>")
    return f"<main>\n{chr(10).join(parts)}\n</main>"


def _html(block: Text | Items | Code | Table | Figure) -> str:
    e = html.escape
    if isinstance(block, Text):
        return f"<p>{e(block.text)}</p>"
    if isinstance(block, Items):
        return "<ul>" + "".join(f"<li>{e(item)}</li>" for item in block.items) + "</ul>"
    if isinstance(block, Code):
        return f'<pre tabindex="0">{e(block.text)}</pre>'
    if isinstance(block, Figure):
        svg = block.svg.replace("<svg ", f'<svg role="img" aria-label="{e(block.words)}" ', 1)
        return (
            f'<figure class="wide" tabindex="0"><figcaption>{e(block.caption)}</figcaption>'
            f"{svg}</figure>"
        )
    return _table(block)


def _table(table: Table) -> str:
    e = html.escape
    cells = [["" if cell is None else str(cell) for cell in row] for row in table.rows]
    columns = list(zip(*cells, strict=True))
    right = {
        place
        for place, name in enumerate(table.head)
        if name and place and all(map(NUMBER.fullmatch, columns[place] if columns else ()))
    }
    rows = []
    for number, (name, *rest) in enumerate(cells):
        data = "".join(
            f'<td class="number">{e(cell)}</td>'
            if place in right
            else f'<td dir="auto">{e(cell)}</td>'
            for place, cell in enumerate(rest, start=1)
        )
        ours = ' class="ours"' if number in table.ours else ""
        rows.append(f'<tr{ours}><th scope="row" dir="auto">{e(name)}</th>{data}</tr>')
    names = "".join(
        f'<th scope="col"{" class=number" if place in right else ""}>{e(name)}</th>'
        for place, name in enumerate(table.head)
    )
    head = f"<thead><tr>{names}</tr></thead>" if any(table.head) else ""
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{e(table.caption)}"><table>'
        f"<caption>{e(table.caption)}</caption>{head}<tbody>{''.join(rows)}</tbody></table>"
        "</div>"
    )


def to_markdown(title: str, sections: Sequence[Section]) -> str:
    """Return the document without its pictures, whose words stand in their places."""
    parts = [f"# {escaped(title)}"]
    for section in sections:
        parts += [f"## {escaped(section.title)}", *map(_markdown, section.blocks)]
    return "\n\n".join(parts) + "\n"


def _markdown(block: Text | Items | Code | Table | Figure) -> str:
    if isinstance(block, Text):
        return _begun(block.text)
    if isinstance(block, Items):
        return "\n".join(f"- {_begun(item)}" for item in block.items)
    if isinstance(block, Code):
        longest = max(map(len, re.findall("`+", block.text)), default=0)
        fence = "`" * max(3, longest + 1)
        return f"{fence}\n{block.text}\n{fence}"
    if isinstance(block, Figure):
        return f"{escaped(block.caption)}: {escaped(block.words)}"
    lines = [list(map(escaped, block.head)), ["---"] * len(block.head)]
    rows = [["" if cell is None else escaped(str(cell)) for cell in row] for row in block.rows]
    rows = [
        [
            f"**{cell}**" if cell and number in block.ours and not place else cell
            for place, cell in enumerate(row)
        ]
        for number, row in enumerate(rows)
    ]
    table = [f"| {' | '.join(cells)} |" for cells in (*lines, *rows)]
    return "\n".join([escaped(block.caption) + ":", "", *table])


def escaped(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    text = re.sub(r"\s", " ", text)
    text = text.replace("&", "&amp;")
    return re.sub(r"([\\`*\[\]<>|#~$]|(?<!\w)_|_(?!\w))", r"\\\1", text)


def _begun(text: str) -> str:
    """Return escaped text that begins a paragraph, not a list of its own."""
    return re.sub(r"^(\d*)([-+.)])", r"\1\\\2", escaped(text).lstrip())
