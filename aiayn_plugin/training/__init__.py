"""§5 Training: the formulas of loss, optimiser, schedule and batches, without fairseq."""
