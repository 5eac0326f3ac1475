"""Matplotlib figures, as files and inside pages."""

import io
import logging
import re
from pathlib import Path
from typing import Any

from .atomic import write_file_atomically
from .errors import InputError
from .html_page import follow_scheme

#: The formats of figures; the first two are vector graphics.
FORMATS = ("svg", "pdf", "png")


def load_matplotlib() -> None:
    """Import matplotlib, set up to write files. Raises InputError if it is not installed."""
    for library in ("matplotlib", "fontTools"):
        logging.getLogger(library).setLevel(logging.ERROR)  # they log a lot at DEBUG
    try:
        import matplotlib
    except ImportError:
        raise InputError("figures need matplotlib: pip install matplotlib") from None
    # Text is kept as text: it is searchable, and SVG viewers supply fonts for other scripts.
    matplotlib.rcParams.update({"svg.fonttype": "none", "pdf.fonttype": 42})


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure, sized in inches. Raises InputError without matplotlib."""
    load_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def check(path: Path) -> None:
    """Raise InputError if the suffix is not in FORMATS, or without matplotlib."""
    if path.suffix[1:].lower() not in FORMATS:
        raise InputError(f"{path}: the name of a figure must end in .svg, .pdf or .png")
    load_matplotlib()


def save(figure: Any, path: Path) -> None:
    """Write a figure atomically; call `check` on the path first."""
    with write_file_atomically(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=200, bbox_inches="tight")


def inline_svg(figure: Any) -> str:
    """Return a figure as an element of a page, in the page's colours, dark or light."""
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'<g id="[^"]*">', "<g>", svg)  # the IDs repeat in every figure of a page
    svg = follow_scheme(svg).replace("#000000", "currentColor")
    return svg.replace("<svg ", '<svg fill="currentColor" ', 1)  # text has no colour set
