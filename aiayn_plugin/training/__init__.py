"""§5 Training: loss, optimizer, schedule and batch planning, independent of fairseq."""
