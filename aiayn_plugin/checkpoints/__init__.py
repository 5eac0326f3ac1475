"""Checkpoints: read without running code, compared with a model, averaged, written whole, exported.

Nothing here imports fairseq.
"""
