"""Checkpoints: safe loading, compatibility with a model, averaging, bundles and export.

Nothing here imports fairseq.
"""
