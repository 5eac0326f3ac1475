"""§6.1 Beam search. BeamSearch is the entry point: SearchSettings in, lists of Hypothesis out."""
