"""§6.1, §6.3 Run directories, Translator and Parser. Parser, in parser.py, needs nltk."""

from .translator import Translation, Translator

__all__ = ["Translation", "Translator"]
