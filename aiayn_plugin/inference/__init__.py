"""§6.1, §6.3 A run directory, and the Translator and Parser that use its model."""

from .translator import Translation, Translator

__all__ = ["Translation", "Translator"]
