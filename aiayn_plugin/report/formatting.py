"""Numbers in words: durations, powers of ten, differences; names that can be printed."""

import math

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def duration(seconds: float) -> str:
    """Return a time in its two largest units: "3 min 51 s", "3 d 12 h"."""
    units = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
    parts, rest = [], round(seconds)
    for size, name in units:
        if count := rest // size:
            parts.append(f"{count} {name}")
        rest %= size
    return " ".join(parts[:2]) or "0 s"


def power(number: float) -> str:
    """Return a large number as in Table 2: "3.3 · 10¹⁸"."""
    if not math.isfinite(number):
        return "∞"
    digits, exponent = f"{number:.1e}".split("e")
    return f"{digits} · 10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def fixed(number: float | None, places: int = 2) -> str | None:
    """Return a number with so many decimal places."""
    return None if number is None else f"{number:.{places}f}"


def signed(number: float | None, places: int = 2) -> str | None:
    """Return a difference with its sign."""
    return None if number is None else f"{number:+.{places}f}".replace("-", "−")


def whole(number: float | None) -> str | None:
    """Return a number without decimal places: "63,045,632"."""
    return None if number is None else f"{number:,.0f}"


def printable(text: str) -> str:
    """Return text with an escape in the place of each character that is none, or that steers."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
