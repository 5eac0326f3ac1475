"""From public archives or raw text to a fairseq data directory (§5.1)."""
