"""Numbers as text: powers of ten, differences, counts."""

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def format_power(number: float | str) -> str:
    """Return a large number as in Table 2: "3.3 · 10¹⁸". Strings are returned unchanged."""
    if isinstance(number, str):
        return number
    digits, exponent = f"{number:.1e}".split("e")
    return f"{digits} · 10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def format_number(number: float | None, spec: str = ".2f") -> str | None:
    """Return a number in a format: ".2f", "+.1f" for a difference, ",.0f" for "63,045,632"."""
    return None if number is None else format(number, spec).replace("-", "−")


def format_integer(number: float | None) -> str | None:
    """Return a number without decimal places: "63,045,632"."""
    return format_number(number, ",.0f")


def format_count(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: "1 update", "2 updates"."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def format_split(split: str) -> str:
    """Return "validation set" for "valid", "test set" for "test"."""
    return f"{'validation' if split == 'valid' else split} set"
