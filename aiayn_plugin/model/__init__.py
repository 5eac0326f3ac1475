"""§3 Model architecture, in torch alone: nothing here imports fairseq."""
