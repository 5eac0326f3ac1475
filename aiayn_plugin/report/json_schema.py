"""Untrusted JSON, reduced to the expected fields and types."""

from math import isfinite
from typing import Any

#: Larger numbers are treated as damage: no quantity of a training run reaches them.
MAX_MAGNITUDE = 1e30


def conform(value: Any, schema: Any) -> Any:
    """Return the part of a JSON value that has the schema's types.

    A schema is int (non-negative), float (finite) or another type; object, for a string, a number
    (a string if not finite), None, or a list of them; a list of one schema; a dict of names; or a
    dict with the key str, for any names. For example, {"N": int, "name": str} turns {"N": "6",
    "name": "base", "x": 1} into {"N": None, "name": "base"}. Missing and mistyped fields become
    None, or an empty list or dict.
    """
    if schema is object:
        if isinstance(value, list):
            return [conform(i, object) for i in value if not isinstance(i, list | dict)]
        if isinstance(value, float) and not isfinite(value):
            return str(value)
        return None if isinstance(value, dict) else value
    if isinstance(schema, list):
        return [conform(item, schema[0]) for item in value] if isinstance(value, list) else []
    if isinstance(schema, dict):
        fields = value if isinstance(value, dict) else {}
        if str not in schema:
            return {name: conform(fields.get(name), kind) for name, kind in schema.items()}
        known = {name: conform(item, schema[str]) for name, item in fields.items()}
        return {name: item for name, item in known.items() if item is not None}
    if schema in (int, float):  # an integer is a float too, and a bool is neither
        smallest = 0 if schema is int else -MAX_MAGNITUDE
        fits = type(value) in (int, schema) and smallest <= value <= MAX_MAGNITUDE
    else:
        fits = isinstance(value, schema)
    return value if fits else None


def is_complete(value: Any) -> bool:
    """Return whether a conforming value has all its fields: none of them is None."""
    if isinstance(value, dict | list):
        return all(map(is_complete, value.values() if isinstance(value, dict) else value))
    return value is not None
