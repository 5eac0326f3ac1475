"""§6.1 Beam search. BeamSearch is the entry point: SearchSettings in, lists of Hypothesis out."""

from .beam import BeamSearch, SpecialTokens, TokenConstraint
from .hypotheses import Hypothesis

__all__ = ["BeamSearch", "Hypothesis", "SpecialTokens", "TokenConstraint"]
