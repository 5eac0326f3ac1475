"""§6.1, §6.3: raw text to raw text, or to trees, with a run directory."""
