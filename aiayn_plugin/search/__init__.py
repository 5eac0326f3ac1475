"""§6.1 Beam search. BeamSearch is the entry point: SearchSettings in, lists of Hypothesis out.

generate is a shorthand for one batch: token IDs in, token IDs out.
"""

from .beam import BeamSearch, generate
from .hypotheses import Hypothesis

__all__ = ["BeamSearch", "Hypothesis", "generate"]
