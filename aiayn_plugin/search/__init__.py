"""§6.1 Beam search: its rules, its hypotheses, and the model one step at a time."""
