"""§6.3 English constituency parsing: trees, their linearisation and grammar, F1; no fairseq."""

from ..errors import InputError

try:
    import nltk  # noqa: F401
except ImportError:
    raise InputError("parsing needs nltk: pip install nltk") from None
