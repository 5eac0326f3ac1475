"""§5 Training: loss, optimiser, schedule and batch planning, independent of fairseq."""
