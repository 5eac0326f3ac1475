"""Reports that compare runs with the paper's Tables 2 to 4."""
