"""§6.3 English constituency parsing: trees, their linearisation, grammar and F1."""

from ..errors import InputError

try:
    import nltk  # noqa: F401
except ImportError:
    raise InputError("parsing needs nltk: pip install nltk") from None
