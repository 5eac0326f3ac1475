"""How a processor or a GPU computes the model fast: plain functions that the model calls."""
