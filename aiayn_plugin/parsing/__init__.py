"""§6.3 English constituency parsing: trees, their linearisation, grammar and F1."""
