"""§6.3 English constituency parsing: trees, their linearisation, F1. Neither torch nor fairseq."""
