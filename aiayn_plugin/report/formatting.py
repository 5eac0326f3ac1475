"""Numbers as text: durations, powers of ten, differences; and text that is safe to print."""

import math

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def duration(seconds: float) -> str:
    """Return a time in its two largest units: "3 min 51 s", "3 d 12 h"."""
    parts, rest = [], round(seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"


def power(number: float | str) -> str:
    """Return a large number as in Table 2: "3.3 · 10¹⁸". The reason for its absence is kept."""
    if isinstance(number, str):
        return number
    if not math.isfinite(number):
        return "∞"
    digits, exponent = f"{number:.1e}".split("e")
    return f"{digits} · 10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def fixed(number: float | None, places: int = 2) -> str | None:
    """Return a number with `places` decimal places."""
    return None if number is None else f"{number:.{places}f}"


def signed(number: float | None, places: int = 2) -> str | None:
    """Return a difference with its sign."""
    return None if number is None else f"{number:+.{places}f}".replace("-", "−")


def whole(number: float | None) -> str | None:
    """Return a number without decimal places: "63,045,632"."""
    return None if number is None else f"{number:,.0f}"


def printable(text: str) -> str:
    """Return text with control characters and invalid characters escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
