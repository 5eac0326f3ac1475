"""Figures by matplotlib, as files and inside pages."""

import io
import logging
import re
import warnings
from pathlib import Path
from typing import Any

from .atomic import write_file_atomically
from .errors import InputError

logger = logging.getLogger(__name__)

#: What a figure can be written as; the first two are vectors.
FORMATS = ("svg", "pdf", "png")


def matplotlib() -> Any:
    """Return the library, set up to write files. Raises InputError if it is not installed."""
    for library in ("matplotlib", "fontTools"):
        logging.getLogger(library).setLevel(logging.ERROR)  # their DEBUG lines are many
    try:
        import matplotlib
    except ImportError:
        raise InputError("figures need matplotlib: pip install matplotlib") from None
    matplotlib.use("Agg")
    # Text stays text: it can be searched and marked, and the reader's fonts have every script.
    matplotlib.rcParams.update({"svg.fonttype": "none", "pdf.fonttype": 42})
    return matplotlib


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of so many inches. Raises InputError without matplotlib."""
    matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def check_format(path: Path) -> None:
    """Raise InputError for a name that no figure can have."""
    if path.suffix[1:].lower() not in FORMATS:
        raise InputError(f"{path}: a figure is a file .svg, .pdf or .png")


def save(figure: Any, path: Path) -> None:
    """Write a figure, whole or not at all. Raises InputError for an unknown kind of file."""
    check_format(path)
    with write_file_atomically(path) as temporary, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=200, bbox_inches="tight")
    codes = dict.fromkeys(
        code for warning in warned for code in re.findall(r"^Glyph (\d+) ", str(warning.message))
    )
    if codes and path.suffix.lower() != ".svg":
        logger.warning(
            "%s: no font here has %s, and boxes stand in their place: an .svg is shown "
            "with the reader's fonts",
            path,
            " ".join(chr(int(code)) for code in codes),
        )


def inline_svg(figure: Any) -> str:
    """Return a figure as an element of a page, with the page's colour for text and lines."""
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'<g id="[^"]*">', "<g>", svg)  # names that every figure of a page would have
    for black in ("#000000", "#1a1a1a"):  # the second one is a colour of COLOURS
        svg = svg.replace(black, "currentColor")
    return svg.replace("<svg ", '<svg fill="currentColor" ', 1)  # text has no colour of its own
