"""§3 The model, in plain torch: one module per section, with the paper's names."""

from .transformer import Transformer

__all__ = ["Transformer"]
